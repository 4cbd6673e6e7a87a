"""The quickstart's last words, beside the table over seeds of its world."""

from collections.abc import Mapping
from typing import Any

from dph.lab.quickstart.closing_words import closing_words
from dph.lab.quickstart.over_seeds import read_over_seeds
from dph.lab.worlds import newest_edition


def said_words(summary: Mapping[str, Any], task: str, edition: int | None) -> str:
    """What was seen on this seed and what the table says; ``edition`` None is the newest."""
    table = read_over_seeds(f"{task}-{edition or newest_edition(task)}")
    return "\n".join(closing_words(summary, table))

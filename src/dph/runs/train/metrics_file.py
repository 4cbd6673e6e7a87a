"""metrics.jsonl, read back. Apart from what writes it, so that reading a log loads no torch."""

import json
from pathlib import Path
from typing import Any

from dph.errors import DataError


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a ``metrics.jsonl``; a last line that a kill cut off is left out.

    Raises:
        DataError: any other line is damaged.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return [_parsed(line, number, path) for number, line in enumerate(lines[:-1], 1)]


def _parsed(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        metrics: dict[str, Any] = json.loads(line)
        int(metrics["step"])
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{path}, line {number} is damaged: {line!r:.60}; "
            "move the file away to continue without it"
        ) from error
    return metrics

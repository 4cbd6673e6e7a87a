"""Entries of reasoning-gym: made again wherever they are needed, from the fields of a problem.

A dataset of the package is a function of its name, its configuration, a seed and a size, so these
and a number are all that a problem holds of an entry. The package's own scorer then reads the
very entry that it made, with every type that JSON would lose.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dph.errors import DataError

# The answer inside a response to a task of reasoning-gym.

_ELEMENT = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_PHRASE = re.compile(r"\banswer:", re.IGNORECASE)


def gym_answer(response: str) -> str | None:
    """The last ``<answer>`` element, else what follows the last "Answer:", else all of it.

    Blanks around it do not count. None where nothing is left.

    >>> gym_answer("2 + 2 = 4, times 3 = 12. Answer: 12")
    '12'
    >>> gym_answer("<answer> 7 </answer> Answer: 9")
    '7'
    """
    if elements := _ELEMENT.findall(response):
        found = elements[-1]
    else:
        found = _PHRASE.split(response)[-1]
    return found.strip() or None


FIELDS = ("gym_task", "gym_config", "gym_seed", "gym_size", "gym_index")
MAKING_SECONDS = 60.0
"""What the package may take to make an entry."""
MEMORY_BYTES = 4_000_000_000
"""The address space of a worker."""
_TYPES = {
    "gym_task": str,
    "gym_config": dict,
    "gym_seed": int,
    "gym_size": int,
    "gym_index": int,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GymEntry:
    """Entry of a dataset of reasoning-gym that a problem is."""

    task: str
    config: Mapping[str, Any]
    seed: int
    size: int
    index: int

    @property
    def dataset(self) -> str:
        """The dataset it is of, as canonical JSON: equal datasets have equal texts."""
        parts = [self.task, dict(self.config), self.seed, self.size]
        return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def entry_fields(entry: GymEntry) -> dict[str, Any]:
    """The fields of a problem that name its entry."""
    values = (entry.task, dict(entry.config), entry.seed, entry.size, entry.index)
    return dict(zip(FIELDS, values, strict=True))


def parse_entry(answer: Mapping[str, Any], place: str) -> GymEntry:
    """The entry that a problem names; ``place`` says in messages which problem it is.

    Raises:
        DataError: a field is missing or of another type.
    """
    for name, kind in _TYPES.items():
        value = answer.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(
                f"the reasoning_gym verifier needs {name} ({kind.__name__}) in {place}, got "
                f"{value!r:.80}; `dph tasks reasoning-gym` writes such problems"
            )
    task, config, seed, size, index = (answer[name] for name in FIELDS)
    if not 0 <= index < size:
        raise DataError(f"gym_index of {place} must be 0 to {size - 1} (gym_size), got {index}")
    return GymEntry(task=task, config=config, seed=seed, size=size, index=index)

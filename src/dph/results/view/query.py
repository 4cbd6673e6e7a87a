"""What a list of problems is filtered and sorted by, as the browser asks for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dph.errors import SettingsError

MOST = 500
"""Lines that are answered at once."""
_LONGEST = 1000
"""Characters of a search."""
_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter (browser/filters.js has the same); ``shown`` are keys of runs, "" and None: any."""

    set: str
    shown: tuple[str, ...]
    q: str = ""
    answers: bool = False
    run: str = ""
    change: str = ""
    outcome: str = ""
    style: str = ""
    least: int | None = None
    most: int | None = None
    sort: str = "place"
    down: bool = False

    @property
    def words(self) -> list[str]:
        """The words that are looked for; what stands in quotes is one."""
        found = re.finditer(r'"([^"]+)"?|(\S+)', self.q)
        return [match[1] or match[2] for match in found]

    @property
    def asks_runs(self) -> bool:
        """Whether one run has to fulfil something."""
        texts = self.change or self.outcome or self.style
        return bool(texts) or self.least is not None or self.most is not None


def query_of(words: Mapping[str, str]) -> Query:
    """The query in the words of an address.

    Raises:
        SettingsError: a number is none, or the search is too long.
    """
    q = words.get("q", "")
    if len(q) > _LONGEST:
        raise SettingsError(f"a search has at most {_LONGEST} characters, got {len(q)}")
    texts = {name: words.get(name, "") for name in ("run", "change", "outcome", "style")}
    return Query(
        set=words.get("set", ""),
        shown=tuple(words.get("shown", "").split()),
        q=q,
        answers=words.get("answers") == "1",
        least=None if "from" not in words else number_of(words, "from"),
        most=None if "to" not in words else number_of(words, "to"),
        sort=words.get("sort") or "place",
        down=words.get("down") == "1",
        **texts,
    )


def number_of(words: Mapping[str, str], name: str, otherwise: int = 0) -> int:
    """A whole number among the words.

    Raises:
        SettingsError: it is none.
    """
    text = words.get(name, str(otherwise))
    if not re.fullmatch(rf"-?[0-9]{{1,{_DIGITS}}}", text):
        raise SettingsError(
            f"{name} is a whole number of at most {_DIGITS} digits, got {text!r:.40}"
        )
    return int(text)

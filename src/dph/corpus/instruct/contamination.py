"""What of the test sets a row of fine-tuning holds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dph._base.files.rows import read_rows
from dph.corpus.decontaminate.stage import Decontamination
from dph.corpus.decontaminate.test_sets import ENTRY_POINT, GRAM, read_index, write_index
from dph.corpus.documents import Document
from dph.corpus.instruct.row import InstructRow
from dph.errors import SettingsError

PROMPT = "prompt"
CHECKS = (GRAM, ENTRY_POINT, PROMPT)
"""What a row can be compared by: ten words in a row, a function that a test asks for, and the whole
prompt."""
DEFAULT_CHECKS = CHECKS
_ASKED = ("prompt", "question")


class Contamination:
    """Says what a row shares with test sets.

    Args:
        sets: files of tests, by name.
        checks: of ``CHECKS``. Tasks whose prompts all begin with the same schema share ten words
            by nature and are told apart by the whole prompt.
        index: where the index of the sets is written.

    Raises:
        SettingsError: a check is unknown.
        DataError: a set cannot be read, or is empty.
    """

    def __init__(self, sets: Mapping[str, Path], checks: Sequence[str], index: Path) -> None:
        if unknown := [check for check in checks if check not in CHECKS]:
            raise SettingsError(f"a check is one of {', '.join(CHECKS)}, got {unknown[0]!r}")
        self._stage: Decontamination | None = None
        self._prompts: dict[str, str] = {}
        if not sets:
            return
        write_index(sets, index)
        self._stage = Decontamination(
            read_index(index), {"checks": [check for check in checks if check != PROMPT]}
        )
        if PROMPT in checks:
            self._prompts = {
                _normal(row[key]): name
                for name in sorted(sets, reverse=True)
                for _, row in read_rows(sets[name])
                for key in _ASKED
                if isinstance(row.get(key), str)
            }

    def reason(self, row: InstructRow) -> str:
        """Why the row must go; '' if it may stay."""
        if (found := self._prompts.get(_normal(row.prompt))) is not None:
            return f"{PROMPT}:{found}"
        if self._stage is None:
            return ""
        outcome = self._stage(Document.of(row.text, id=row.key, path="row"))
        return outcome.drops[0].reason if outcome.drops else ""


def _normal(text: str) -> str:
    return " ".join(text.split()).lower()

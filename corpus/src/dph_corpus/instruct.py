"""The rows of one stage of fine-tuning: a number of each part, no copies, nothing of a test set."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.files import make_directory, only_writer, read_json, sha256, write_json, write_text
from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph_corpus.decontaminate import ENTRY_POINT, GRAM, Decontamination, read_index, write_index
from dph_corpus.documents import Document, encoded
from dph_corpus.shards import digest

# How many rows of each part a stage of fine-tuning takes.

STAGES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "stage1": MappingProxyType(
            {"realuser": 700_000, "diverse": 2_300_000, "infinity": 1_000_000}
        ),
        "stage2": MappingProxyType(
            {"mceval": 36_000, "evol": 111_000, "educational": 110_000, "package": 110_000}
        ),
    }
)
"""OpenCoder's two stages (arXiv:2411.04905): broad first, then verified and of high quality. The
card of the released data has 118,000 educational and 171,000 package rows."""


# A row of fine-tuning as texts: a prompt and a response, or messages.


@dataclass(frozen=True, slots=True)
class InstructRow:
    """A row, the part it comes from, and a key of what it says.

    ``key`` is a SHA-256 over its texts, so that equal rows have one, and their order by it is that
    of no file.
    """

    part: str
    content: Mapping[str, Any]
    key: str

    def line(self) -> str:
        """The row as a line of JSON; ``source`` says its part."""
        content = {**self.content, "source": self.part}
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    @property
    def prompt(self) -> str:
        """The question: all texts but the last."""
        *asked, _ = row_texts(self.content)
        return "\n".join(asked)

    @property
    def text(self) -> str:
        """All that is said."""
        return "\n".join(row_texts(self.content))


def instruct_row(part: str, value: Any, place: str) -> InstructRow:
    """Check a row."""
    if not isinstance(value, Mapping) or len(texts := [*row_texts(value)]) < 2:
        raise DataError(
            f"{place}: a row must have a prompt and a response, or messages; got {value!r:.80}"
        )
    row = InstructRow(part, value, hashlib.sha256(json.dumps(texts).encode()).hexdigest())
    try:
        line = row.line()
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: a row must be JSON: {error}") from error
    encoded(line, place)
    return row


def row_texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The texts turn by turn; nothing for other forms."""
    turns = row.get("messages")
    if turns is None:
        prompt, answer = row.get("prompt"), row.get("response")
        if not isinstance(answer, str):
            return
        turns = [*(prompt if isinstance(prompt, list) else [{"content": prompt}])]
        turns.append({"content": answer})
    if not isinstance(turns, list):
        return
    for turn in turns:
        if isinstance(turn, Mapping) and isinstance(turn.get("content"), str):
            yield turn["content"]


# What of the test sets a row of fine-tuning holds.

PROMPT = "prompt"
CHECKS = (GRAM, ENTRY_POINT, PROMPT)
"""Keys that a row can be compared by: ten words in a row, a function that a test asks for, and the
whole prompt."""
DEFAULT_CHECKS = CHECKS
_ASKED = ("prompt", "question")


class Contamination:
    """Says what a row shares with test sets.

    Args:
        sets: files of tests, by name.
        checks: of ``CHECKS``. Tasks whose prompts all begin with the same schema share ten words
            by nature and are told apart by the whole prompt.
        index: where the index of the sets is written.
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
                _normal(text): name
                for name in sorted(sets, reverse=True)
                for _, row in read_rows(sets[name])
                for key in _ASKED
                for text in _asked(row.get(key))
            }

    def reason(self, row: InstructRow) -> str:
        """Why the row must go; '' if it may stay."""
        *turns, _ = row_texts(row.content)
        for asked in (row.prompt, *turns[-1:]):  # with and without what stands before it
            if (found := self._prompts.get(_normal(asked))) is not None:
                return f"{PROMPT}:{found}"
        if self._stage is None:
            return ""
        outcome = self._stage(Document.of(row.text, id=row.key, path="row"))
        return outcome.drops[0].reason if outcome.drops else ""


def _asked(prompt: Any) -> Iterator[str]:
    """The text that a test asks by: its prompt, or the last message of a chat."""
    if isinstance(prompt, str):
        yield prompt
    elif isinstance(prompt, list) and prompt and isinstance(prompt[-1], Mapping):
        last = prompt[-1].get("content")
        if isinstance(last, str):
            yield last


def _normal(text: str) -> str:
    return " ".join(text.split()).lower()


VERSION = 2
"""Counts up when the same files and settings give other rows."""
SCHEMA = 1
ROWS, MANIFEST, TESTS = "rows.jsonl", "manifest.json", "tests.parquet"
COPY, FULL = "copy", "quota"
"""Why a row is left out: an equal one is there, or its part has what it may have."""
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class InstructFile:
    """The file that was written, and its manifest."""

    path: Path
    manifest: Mapping[str, Any]


def instruct(
    parts: Mapping[str, Path],
    out: Path,
    *,
    quotas: Mapping[str, int],
    sets: Mapping[str, Path] | None = None,
    checks: Sequence[str] = DEFAULT_CHECKS,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> InstructFile:
    """Take ``quotas`` rows of the ``parts`` and write ``out/rows.jsonl``, once.

    Rows are taken and written in the order of a hash of what they say: a uniform sample of each
    part, mixed, that does not depend on the order of the files. A part with too few rows leaves a
    shortfall, which the manifest tells; no other part fills it.
    """
    if set(parts) != set(quotas) or not parts:
        raise SettingsError(
            "parts and numbers of rows must have the same names: parts "
            f"{', '.join(sorted(parts))}; rows {', '.join(sorted(quotas))}"
        )
    if short := [name for name, count in quotas.items() if count < 1]:
        raise SettingsError(f"rows of {short[0]} must be at least 1, got {quotas[short[0]]}")
    sets = sets or {}
    written = {(out / name).resolve() for name in (ROWS, MANIFEST, TESTS)}
    for path in (*parts.values(), *sets.values()):
        if path.resolve() in written:
            raise DataError(f"{path} is an input and would be overwritten: write to another place")
    made_from = {
        "version": VERSION,
        "parts": {name: sha256(_file(path)) for name, path in sorted(parts.items())},
        "quotas": dict(sorted(quotas.items())),
        "sets": {name: sha256(_file(path)) for name, path in sorted(sets.items())},
        "checks": sorted(checks),
    }
    with only_writer(out):
        if (found := _finished(out, made_from)) is not None:
            return found
        (out / MANIFEST).unlink(missing_ok=True)
        taking = _Taking(quotas, Contamination(sets, checks, make_directory(out) / TESTS))
        for name in sorted(parts):
            taking.read(name, parts[name])
            on_progress(1, name)
        rows = taking.rows()
        if not rows:
            raise DataError(f"no row is left of {', '.join(sorted(parts))}: {dict(taking.reasons)}")
        write_text(out / ROWS, "".join(f"{row.line()}\n" for row in rows))
        manifest = {
            "schema": SCHEMA,
            "made_from": made_from,
            **taking.told(rows),
            "sha256": sha256(out / ROWS),
        }
        write_json(out / MANIFEST, manifest)
        return InstructFile(out / ROWS, manifest)


class _Taking:
    """Rows by their keys, and what became of those that are not taken."""

    def __init__(self, quotas: Mapping[str, int], contamination: Contamination) -> None:
        self._quotas, self._contamination = quotas, contamination
        self._found: dict[str, InstructRow] = {}
        self.read_rows: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def read(self, part: str, path: Path) -> None:
        """Take what may stay of a file; of equal rows that of the part first by name."""
        for place, value in read_rows(path):
            row = instruct_row(part, value, place)
            self.read_rows[part] += 1
            if row.key in self._found:
                self._leave(COPY, row)
            elif reason := self._contamination.reason(row):
                self._leave(reason, row)
            else:
                self._found[row.key] = row

    def rows(self) -> list[InstructRow]:
        """The first rows of each part by key, in that order."""
        taken: Counter[str] = Counter()
        kept = []
        for key in sorted(self._found):
            row = self._found[key]
            if taken[row.part] < self._quotas[row.part]:
                taken[row.part] += 1
                kept.append(row)
            else:
                self._leave(FULL, row)
        return kept

    def told(self, rows: Sequence[InstructRow]) -> dict[str, Any]:
        """Counts for the manifest."""
        taken = Counter(row.part for row in rows)
        return {
            "rows": len(rows),
            "read": dict(sorted(self.read_rows.items())),
            "taken": {name: taken[name] for name in sorted(self._quotas)},
            "short": {name: self._quotas[name] - taken[name] for name in sorted(self._quotas)},
            "left_out": dict(sorted(self.reasons.items())),
            "examples": dict(sorted(self.examples.items())),
        }

    def _leave(self, reason: str, row: InstructRow) -> None:
        self.reasons[reason] += 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < _EXAMPLES:
            shown.append(row.text[:200])


def _finished(out: Path, made_from: Mapping[str, Any]) -> InstructFile | None:
    if not (out / MANIFEST).is_file() or not (out / ROWS).is_file():
        return None
    manifest = read_json(out / MANIFEST)
    same = digest(manifest.get("made_from")) == digest(dict(made_from))
    whole = manifest.get("sha256") == sha256(out / ROWS)
    return InstructFile(out / ROWS, manifest) if same and whole else None


def _file(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"there is no file of rows {path}")
    return path

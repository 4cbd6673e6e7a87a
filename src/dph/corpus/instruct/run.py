"""The rows of one stage of fine-tuning: so many of each part, no copies, nothing of a test set."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, only_writer, read_json, sha256, write_json, write_text
from dph._base.files.rows import read_rows
from dph.corpus.instruct.contamination import DEFAULT_CHECKS, Contamination
from dph.corpus.instruct.row import InstructRow, instruct_row
from dph.corpus.shards import digest
from dph.errors import DataError, SettingsError

VERSION = 1
"""Counts up when the same files and settings give other rows."""
SCHEMA = 1
ROWS, MANIFEST = "rows.jsonl", "manifest.json"
COPY, FULL = "copy", "quota"
"""Why a row is left out: an equal one is there, or its part has what it may have."""
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class InstructFile:
    """What was written, and its manifest."""

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

    Args:
        parts: files of rows, by name.
        out: directory that is written.
        quotas: rows of each part, by its name.
        sets: test sets by name; a row that shares something with one is left out.
        checks: by what rows are compared with them.
        on_progress: told of every part that is read.

    Raises:
        SettingsError: quotas are not those of the parts, or a check is unknown.
        DataError: a file cannot be read, a row is malformed, or no row is left.
    """
    _require_quotas(parts, quotas)
    sets = sets or {}
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
        taking = _Taking(quotas, Contamination(sets, checks, make_directory(out) / "tests.parquet"))
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
        """What the manifest says."""
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


def _require_quotas(parts: Mapping[str, Path], quotas: Mapping[str, int]) -> None:
    if set(parts) != set(quotas) or not parts:
        raise SettingsError(
            "each part needs a number of rows and the other way round: parts "
            f"{', '.join(sorted(parts))}; rows {', '.join(sorted(quotas))}"
        )
    if short := [name for name, count in quotas.items() if count < 1]:
        raise SettingsError(f"rows of {short[0]} must be at least 1, got {quotas[short[0]]}")


def _file(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"there is no file of rows {path}")
    return path

"""The rows of a study: those of its ``study.parquet``, and files of runs that ended since."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dph._base.files import make_directory, read_json, write_json
from dph.errors import DataError

# The note that a world of a seed is ready for runs: base model, its evaluation, and pools.

NOTE = "prepared.json"


def note_prepared(directory: Path, base: str, pools: Sequence[str]) -> None:
    """Say that the base model (by the id of its run) is evaluated and that these pools are made."""
    before = _pools(directory, base) or []
    write_json(make_directory(directory) / NOTE, {"base": base, "pools": sorted({*before, *pools})})


def is_prepared(directory: Path, base: str, pools: Sequence[str]) -> bool:
    """Whether runs that read these pools can begin."""
    there = _pools(directory, base)
    return there is not None and set(pools) <= set(there)


def _pools(directory: Path, base: str) -> list[str] | None:
    """The pools that are made; None where the base model is not, or is another one."""
    path = directory / NOTE
    found = read_json(path) if path.exists() else {}
    return list(found["pools"]) if found.get("base") == base else None


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of a study that lies in ``out``."""

    out: Path

    @property
    def lock(self) -> Path:
        """The rule that the results obey."""
        return self.out / "rule.lock.json"

    @property
    def rows(self) -> Path:
        """The directory of runs' scores that are not in the table yet."""
        return self.out / "rows"

    @property
    def shares(self) -> list[Path]:
        """The tables of other machines that are not in the table yet."""
        return sorted((self.out / "shares").glob("*.parquet"))

    @property
    def parquet(self) -> Path:
        """Every score of every run."""
        return self.out / "study.parquet"

    @property
    def costs(self) -> Path:
        """The directory of runs' seconds."""
        return self.out / "costs"

    @property
    def all_costs(self) -> Path:
        """Seconds of all runs, a line each."""
        return self.out / "costs.jsonl"

    @property
    def report(self) -> Path:
        """All tables as one document."""
        return self.out / "report.json"

    @property
    def tables(self) -> Path:
        """The directory of tables."""
        return self.out / "tables"

    def log(self, job: str) -> Path:
        """Log of a job's stderr."""
        return self.out / "logs" / f"{job}.log"

    def work(self, world: str, seed: int) -> Path:
        """Directory of the runs on a world of a seed."""
        return self.out / "work" / world / f"seed_{seed}"


# ``rows/<run>.json``: what a finished run scored, until ``study.parquet`` holds it.
#
# Every run leaves a file of its own, so that none is lost whoever is killed;
# ``lab.study.outputs`` gathers them.

ROW_SCHEMA = 3
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric on one set; ``k`` belongs to ``pass_at_k`` only. None: not known.

    ``step`` is that of an earlier checkpoint, or of the end of training beside a model between the
    two ends; None for the model that the run is about.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    set: str
    metric: str
    k: int | None
    value: float | None
    problems: int
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A finished run: what it was, what it scored, and how many answers were drawn for it.

    ``rule_sha256`` is the rule that chose to run it, on report seeds; None on others. ``samples``
    are drawn for each problem of an evaluation; ``rollouts`` in training; ``stored`` for the
    pool that training read. ``base_sha256`` is the fingerprint of the base model's files;
    ``commit`` and ``versions`` are those of the code that made the run (``dph._base.provenance``).
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    run: str
    world: str
    seed: int
    method: str
    strength: float | None
    learning_rate: float | None
    interpolate: float | None
    steps: int
    rule_sha256: str | None
    samples: int
    rollouts: int
    stored: int
    base_sha256: str
    commit: str
    versions: str
    scores: tuple[Score, ...]

    @property
    def processor(self) -> str:
        """The kernels that the run computed with, a GPU by its name."""
        return _PROCESSOR.split(self.versions)[-1]


_PROCESSOR = re.compile(r"(?:x86_64|aarch64|arm64) ")
_ROW = TypeAdapter(RunRow)


def row_path(directory: Path, run: str) -> Path:
    """Path of the row of a run: ``<directory>/<run>.json``."""
    return directory / f"{run}.json"


def write_row_file(directory: Path, row: RunRow) -> None:
    """Write a row where ``row_path`` says."""
    write_json(row_path(make_directory(directory), row.run), {"schema": ROW_SCHEMA, **asdict(row)})


def read_row_files(directory: Path) -> dict[str, RunRow]:
    """All finished runs, by id."""
    if not directory.is_dir():
        return {}
    return {path.stem: _read(path) for path in sorted(directory.glob("[!.]*.json"))}


def require_one_base(rows: Iterable[RunRow]) -> None:
    """Refuse runs on one seed of a world that began with different base models.

    What is between them is not what a method did: nothing may subtract one from the other.
    """
    first: dict[tuple[str, int], RunRow] = {}
    for row in rows:
        other = first.setdefault((row.world, row.seed), row)
        if row.base_sha256 != other.base_sha256:
            raise DataError(
                f"{other.run} began with the base model {other.base_sha256}, {row.run} with "
                f"{row.base_sha256}: runs on one seed of a world are compared only where they "
                "share their base model; remove the rows of one of them and run them again"
            )
        if row.processor != other.processor:
            raise DataError(
                f"{other.run} was made on {other.processor}, {row.run} on {row.processor}: runs on "
                "one seed of a world are compared only if one kind of processor made them all; "
                "remove the rows of one of them"
            )


def scores_of(document: Mapping[str, Any], step: int | None = None) -> Iterator[Score]:
    """The scores of an evaluation.json, set by set."""
    for name, summary in document["sets"].items():
        found: list[tuple[str, int | None, float | None]]
        found = [("greedy", None, summary["greedy"]), ("mean", None, summary["mean"])]
        found += [("pass_at_k", int(k), value) for k, value in summary["pass_at_k"].items()]
        found += [("styles", None, summary["effective_styles"])]
        found += [(metric, None, summary.get(metric)) for metric in ("keep", "explore", "cut_off")]
        for metric, k, value in found:
            yield Score(
                set=name, metric=metric, k=k, value=value, problems=summary["problems"], step=step
            )


def _read(path: Path) -> RunRow:
    found = read_json(path)
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != ROW_SCHEMA:
        raise DataError(
            f"{path} has the schema {schema}, not {ROW_SCHEMA}: remove it to run it again"
        )
    try:
        # As JSON: strictly checked, a record may come as a table there, and a tuple as a list.
        row = _ROW.validate_json(json.dumps({k: v for k, v in found.items() if k != "schema"}))
    except ValidationError as error:
        item = error.errors(include_url=False)[0]  # the key, what is allowed and the value
        first = f"{'.'.join(map(str, item['loc']))}: {item['msg']}, got {item['input']!r:.80}"
        raise DataError(f"{path} is damaged ({first}): remove it to run it again") from error
    if row.run != path.stem:
        raise DataError(f"{path} holds the run {row.run!r}: do not rename files of rows")
    return row


SCHEMA = 3
READ = (2, 3)
"""Tables of schema 2 have no steps of checkpoints."""
COLUMNS = pa.schema(
    [
        ("world", pa.string()),
        ("split", pa.string()),
        ("seed", pa.int64()),
        ("label", pa.string()),
        ("method", pa.string()),
        ("strength", pa.float64()),
        ("learning_rate", pa.float64()),
        ("interpolate", pa.float64()),
        ("steps", pa.int64()),
        ("set", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int64()),
        ("step", pa.int64()),
        ("value", pa.float64()),
        ("problems", pa.int64()),
        ("samples", pa.int64()),
        ("rollouts", pa.int64()),
        ("stored", pa.int64()),
        ("run", pa.string()),
        ("rule_sha256", pa.string()),
        ("base_sha256", pa.string()),
        ("commit", pa.string()),
        ("versions", pa.string()),
    ]
)
OF_SCORE = [field.name for field in fields(Score)]
OF_RUN = [field.name for field in fields(RunRow) if field.name != "scores"]


def read_rows(places: Places) -> dict[str, RunRow]:
    """All finished runs of a study, by id: those of its table, and what ran since."""
    rows = read_row_files(places.rows)
    for path in (places.parquet, *places.shares):
        found = _read_table(path)
        require_one_base([*found.values(), *rows.values()])
        rows |= found
    return dict(sorted(rows.items()))


def _read_table(path: Path) -> dict[str, RunRow]:
    """The runs of a table, each once; their scores in the order in which they were written."""
    if not path.exists():
        return {}
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is damaged: restore it; {error}") from error
    schema = (table.schema.metadata or {}).get(b"dph.schema", b"none").decode()
    if schema not in map(str, READ):
        raise DataError(f"{path} has the schema {schema}, not {SCHEMA}: give another directory")
    runs: dict[str, tuple[str | None, dict[str, Any]]] = {}
    scores: dict[str, list[Score]] = {}
    for line in table.to_pylist():
        run = line["run"]
        runs.setdefault(run, (line["label"], {name: line[name] for name in OF_RUN}))
        if line["label"] == runs[run][0]:  # another label repeats them
            score = Score(**{name: line.get(name) for name in OF_SCORE})
            scores.setdefault(run, []).append(score)
    return {run: RunRow(**of_run, scores=tuple(scores[run])) for run, (_, of_run) in runs.items()}

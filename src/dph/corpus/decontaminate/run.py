"""Decontamination of a corpus against named test sets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dph._base.files import make_directory, sha256
from dph.corpus.decontaminate.stage import CHECKS
from dph.corpus.decontaminate.test_sets import ENTRY_POINT, write_index
from dph.corpus.shards import Corpus
from dph.corpus.stage import StageSpec
from dph.corpus.stage_run import OnProgress, run_stage
from dph.corpus.tasks import Workers
from dph.errors import SettingsError

DEFAULT_CHECKS = tuple(check for check in CHECKS if check != ENTRY_POINT)
"""Names of functions are left to rows of questions and answers: in 5,456 well-kept Python files
168 define one of HumanEval's and MBPP's names, and one shares ten words with a test."""


def decontaminate(
    source: Corpus,
    out: Path,
    *,
    sets: Mapping[str, Path],
    checks: Sequence[str] = DEFAULT_CHECKS,
    workers: Workers = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Drop the documents of ``source`` that share something with a test set.

    Args:
        source: what is read.
        out: the directory to write.
        sets: files of tests by the names that the report uses (``test_sets.write_index``).
        checks: of ``CHECKS``, those to be made.
        workers: processes, or a cluster.
        on_progress: told of finished shards.

    Raises:
        SettingsError: there is no set, or a check is unknown.
        DataError: a file cannot be read.
    """
    if unknown := [check for check in checks if check not in CHECKS]:
        raise SettingsError(f"a check is one of {', '.join(CHECKS)}, got {unknown[0]!r}")
    if not sets or not checks:
        raise SettingsError("need at least one test set and one check")
    index = make_directory(out) / "tests.parquet"
    write_index(sets, index)
    spec = StageSpec(
        name="decontaminate",
        entry="dph.corpus.decontaminate.stage:make_stage",
        settings={"checks": sorted(checks), "sets": sorted(sets)},
        inputs={"index": sha256(index)},
        files={"index": str(index.resolve())},
    )
    return run_stage(spec, source, out, workers=workers, on_progress=on_progress)

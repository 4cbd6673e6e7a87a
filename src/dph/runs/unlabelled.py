"""The unlabelled prompts that a run learns from, and who rewards answers to them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dph.records import Problem
from dph.runs.comparers import comparer
from dph.runs.layout import store_directory
from dph.runs.presample.manifest import Source
from dph.runs.presample.stores.manifest import read_store_manifest
from dph.runs.presample.stores.prompts import file_prompts, only_rows, with_new_words
from dph.runs.presample.stores.store import (
    require_store_policy,
    stored_groups,
    stored_values,
)
from dph.runs.store_stage import known_problems
from dph.runs.train.self_consistency import Consensus, SelfConsistency, consensus_of
from dph.runs.workbench import Workbench


@contextmanager
def self_consistency(
    bench: Workbench, directory: Path, source: Source, *, initial: bool
) -> Iterator[SelfConsistency | None]:
    """Sources that ``[self_consistency]`` asks for; None where it is off.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still the
    initial policy's, whose answers a consensus is of.

    Raises:
        DataError: the prompts cannot be read, none is left, or some are those of a test.
        PoolError: the answers of the store were not compared, or are another policy's.
        SettingsError: nobody can compare answers, or there are too few prompts.
    """
    settings = bench.recipe.self_consistency
    if not settings.active:
        yield None
        return
    if settings.store is not None:
        path = store_directory(bench.recipe, directory, settings.store)
        manifest = read_store_manifest(path / "manifest.json")
        require_store_policy(path, manifest, source, initial=initial)
    problems, consensus = _prompts(bench, directory)
    agreement = settings.agreement
    if settings.store is not None and agreement is None:
        agreement = bench.recipe.stores[settings.store].agreement
    with comparer(
        bench, agreement, key="self_consistency", instead="set problems_per_step = 0"
    ) as known:
        yield SelfConsistency(
            problems=problems,
            per_step=settings.problems_per_step,
            comparer=known,
            consensus=consensus,
            seed=bench.recipe.seed,
        )


def _prompts(
    bench: Workbench, directory: Path
) -> tuple[tuple[Problem, ...], Mapping[str, Consensus] | None]:
    settings, known = bench.recipe.self_consistency, known_problems(bench)
    if settings.store is None:
        return file_prompts("self_consistency", settings, known), None
    path = store_directory(bench.recipe, directory, settings.store)
    values = stored_values(path)
    groups = stored_groups(path)
    consensus = {
        group.problem.problem_id: consensus_of(
            group.answered,
            tuple(value.answer_class for value in values[group.problem.problem_id]),
        )
        for group in groups
    }
    problems = only_rows("self_consistency", [group.problem for group in groups], settings)
    if settings.novel:
        problems = with_new_words(problems, known.train)
    return tuple(problems), consensus

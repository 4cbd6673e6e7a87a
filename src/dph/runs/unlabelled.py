"""The unlabelled prompts that a run learns from, and who rewards answers to them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dph.recipe.tables import SelfConsistencySettings
from dph.records import Problem
from dph.runs.comparers import comparer
from dph.runs.plan import RunPlan
from dph.runs.presample.manifest import Source, read_manifest, require_policy_of
from dph.runs.presample.stores.prompts import file_prompts, only_rows, with_new_words
from dph.runs.presample.stores.store import stored_groups, stored_values
from dph.runs.store_stage import known_problems
from dph.runs.train.self_consistency import Consensus, SelfConsistency, consensus_of


@contextmanager
def self_consistency(
    plan: RunPlan, source: Source, *, initial: bool
) -> Iterator[SelfConsistency | None]:
    """Sources that ``[self_consistency]`` asks for; None where it is off.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still the
    initial policy's, whose answers a consensus is of.

    Raises:
        DataError: the prompts cannot be read, none is left, or some are those of a test.
        PoolError: the answers of the store were not compared, or are another policy's.
        SettingsError: nobody can compare answers, or there are too few prompts.
    """
    settings = plan.unlabelled
    if settings is None:
        yield None
        return
    if settings.store is not None:
        path = plan.stores[settings.store].path
        require_policy_of(path, read_manifest(path, "store"), source, initial=initial)
    problems, consensus = _prompts(plan, settings)
    agreement = settings.agreement
    if settings.store is not None and agreement is None:
        agreement = plan.stores[settings.store].settings.agreement
    with comparer(
        plan, agreement, key="self_consistency", instead="set problems_per_step = 0"
    ) as known:
        yield SelfConsistency(
            problems=problems,
            per_step=settings.problems_per_step,
            comparer=known,
            consensus=consensus,
            seed=plan.recipe.seed,
        )


def _prompts(
    plan: RunPlan, settings: SelfConsistencySettings
) -> tuple[tuple[Problem, ...], Mapping[str, Consensus] | None]:
    known = known_problems(plan)
    if settings.store is None:
        return file_prompts("self_consistency", settings, known), None
    path = plan.stores[settings.store].path
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

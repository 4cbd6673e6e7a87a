"""The stores of a run: made where they are missing, checked and kept where they are there."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from transformers import PreTrainedModel

from dph._base.files import held
from dph._base.files.parts import TableParts
from dph._base.randomness import derived_seed
from dph.errors import ModelError, PoolError
from dph.model.policies import load_policy
from dph.model.sampler.graded import GradedSampler
from dph.recipe import StoreSettings
from dph.recipe.objective import AnchorSettings
from dph.recipe.schema import require_files
from dph.recipe.tables import SelfConsistencySettings
from dph.records import Problem
from dph.runs.directory import is_made
from dph.runs.drawing import drawing, require_engine, scorer_of
from dph.runs.plan import PlannedStore, RunPlan
from dph.runs.presample.making import parts_of, read_pieces, require_free
from dph.runs.presample.manifest import (
    Manifest,
    Source,
    read_manifest,
    require_policy_of,
    require_source,
    require_whole,
)
from dph.runs.presample.pool import Pool, load_pool
from dph.runs.presample.stores.making import CHUNK, StoreDraw, drawn_groups, sizes
from dph.runs.presample.stores.prompts import Known, store_prompts
from dph.runs.presample.stores.store import GROUPS_FILE, load_store, write_store
from dph.runs.presample.stores.values import (
    Judges,
    Valuing,
    agreement_counts,
    grader_of,
    values_by_prompt,
)
from dph.runs.presampling_stage import answer_source, kept_or_made, with_environment
from dph.runs.progress import ProgressDisplay
from dph.runs.stage_costs import timed
from dph.runs.train.rows import StoredRow
from dph.runs.verifier_use import comparer
from dph.tasks.agreement import GOLDS, labelled

# The stored samples that a run rehearses: a pool or a named store for each of its anchors.


def require_stores(plan: RunPlan) -> None:
    """Find out that a store is not there before hours of pre-sampling, which makes the pool.

    Raises:
        PoolError: it is missing, or is no pool.
    """
    for anchor in plan.anchors.values():
        if anchor.pool is not None and anchor.pool.resolve() != plan.pool.resolve():
            read_manifest(anchor.pool, "pool")


def stored_samples(
    plan: RunPlan, pool: Pool | None, source: Source, *, initial: bool
) -> dict[str, Sequence[StoredRow]]:
    """The samples of every anchor of a run, by its name.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still those
    that were sampled.

    Raises:
        PoolError: a store is missing, damaged, or another policy's.
    """
    stored: dict[str, Sequence[StoredRow]] = {}
    loaded: dict[str, Sequence[StoredRow]] = {}  # anchors may share one
    # Pools before stores: the rows of a step lie in this order, and sums of floats depend on it.
    for name, anchor in sorted(plan.anchors.items(), key=lambda item: item[1].store is not None):
        if anchor.recent is not None:
            continue  # the loop fills them
        if anchor.samples not in loaded:
            loaded[anchor.samples] = _loaded(plan, pool, anchor, source, initial=initial)
        stored[name] = loaded[anchor.samples]
    return stored


def _loaded(
    plan: RunPlan, pool: Pool | None, anchor: AnchorSettings, source: Source, *, initial: bool
) -> Sequence[StoredRow]:
    """The samples of the run's pool, of another run's, or of a named store."""
    if anchor.store is not None:
        store = plan.stores[anchor.store]
        require_policy_of(store.path, read_manifest(store.path, "store"), source, initial=initial)
        return load_store(
            store.path,
            tilt=store.settings.tilt,
            values=store.settings.values,
            targets=store.settings.targets,
        )
    if anchor.pool is not None:
        pool = load_pool(anchor.pool)
        require_policy_of(anchor.pool, pool.manifest, source, initial=initial)
    return pool.rehearsal if pool is not None else ()


# The values of a store's answers as a step of a run: found where they fit, else worked out.

_INSTEAD = {
    "distributions": "set tilt = 0 or values = 'correct'",
    "answers": "set values = 'correct'",
}
"""Work that needs no comparison of answers, by the targets of a store."""


@contextmanager
def judges_of(plan: RunPlan, planned: PlannedStore) -> Iterator[Judges | None]:
    """Judges of the answers of a store; None where training does not ask for values.

    Raises:
        SettingsError: answers have to be compared, and nobody can.
    """
    store, verifier = planned.settings, plan.verifier
    grader = grader_of(verifier)
    by_consensus = plan.unlabelled is not None and plan.unlabelled.store == planned.name

    def has_gold(problem: Problem) -> bool:
        # Only the function itself knows what it reads: its problems count as labelled when asked.
        return labelled(problem, grader) or (store.grades and grader.name not in GOLDS)

    if store.compares or by_consensus:
        instead = "leave it out" if by_consensus else _INSTEAD[store.targets]
        with comparer(plan, store.agreement, key=planned.key, instead=instead) as known:
            yield Judges(
                comparer=known, verifier=verifier, labelled=has_gold, all_labelled=store.grades
            )
    elif store.grades:
        yield Judges(comparer=None, verifier=verifier, labelled=has_gold, all_labelled=True)
    else:
        yield None


_DRAWING = 3600.0
"""Seconds that a run waits for another one to make the store that both read."""


def store_stage(plan: RunPlan, progress: ProgressDisplay) -> dict[str, Manifest]:
    """Make the stores that training reads, or continue half-made ones; finished ones are kept.

    Without such a store nothing is loaded and nothing happens.

    Raises:
        PoolError: there is a store that was made from something else, or its place is taken.
        DataError: the prompts cannot be read, none is left, or some are those of a test; or
            another process is making the store.
        ModelError: samples from the beginning are asked for, and the tokenizer has no such token.
        SettingsError: a file is not named, or a prompt and its answer do not fit the context.
    """
    if not plan.stores:
        return {}
    require_named_files(plan)
    prompts = {name: _prompts(plan, store) for name, store in plan.stores.items()}
    model = load_policy(plan.initial, plan.recipe.model, initial=plan.initial)
    return {
        name: _Making(plan=plan, model=model, planned=store, problems=prompts[name]).manifest(
            progress
        )
        for name, store in plan.stores.items()
    }


def shared_store_stage(
    plan: RunPlan, progress: ProgressDisplay, *, lock: Path
) -> dict[str, Manifest]:
    """``store_stage`` where runs side by side share stores: the second waits, and finds them made.

    Raises:
        DphError: as of ``store_stage``; or another run has been making a store for an hour.
    """
    if not plan.stores:
        return {}
    with held(lock, patience=_DRAWING):
        return store_stage(plan, progress)


def require_prompts(plan: RunPlan, *names: str) -> None:
    """Refuse unavailable prompts of stores before anything is drawn.

    Raises:
        DataError: they cannot be read, none is left, or some are those of a test.
        SettingsError: a file is not named.
    """
    stores = [plan.store(name) for name in names]
    require_files({store.name: store.settings for store in stores}, SelfConsistencySettings())
    for store in stores:
        _prompts(plan, store)


def known_problems(plan: RunPlan) -> Known:
    """Prompts that the prompts of stores are compared with."""
    sets = {name: plan.sets[name] for name in plan.recipe.data.sets}
    return Known(train=plan.problems, sets=sets, modules=plan.recipe.data.modules)


def _prompts(plan: RunPlan, store: PlannedStore) -> tuple[Problem, ...]:
    return store_prompts(store.key, store.settings, known_problems(plan), seed=store.seed)


def require_named_files(plan: RunPlan) -> None:
    """Refuse to make or read anything while a file of prompts is not named.

    Raises:
        SettingsError: names the key.
    """
    stores = {name: store.settings for name, store in plan.stores.items()}
    require_files(stores, plan.recipe.self_consistency)


@dataclass(frozen=True, kw_only=True)
class _Making:
    """One store of a run."""

    plan: RunPlan
    model: PreTrainedModel
    planned: PlannedStore
    problems: tuple[Problem, ...]

    @property
    def path(self) -> Path:
        """The store's place."""
        return self.planned.path

    @property
    def store(self) -> StoreSettings:
        """Its settings."""
        return self.planned.settings

    def manifest(self, progress: ProgressDisplay) -> Manifest:
        """That of the finished store."""
        key = f"{self.planned.key}.place"
        require_free(self.path, "store", key=key)
        with judges_of(self.plan, self.planned) as judges:
            if found := self._found(judges):
                return found
            require_engine(self.plan.recipe)
            self._require_prompts_fit()
            return kept_or_made(
                self.plan,
                self.path,
                "store",
                key=key,
                found=lambda: self._found(judges),
                make=lambda: self._make(judges, progress),
            )

    def _found(self, judges: Judges | None) -> Manifest | None:
        """The existing artefact, if it can be used unchanged."""
        if not is_made(self.path):
            return None
        found = read_manifest(self.path, "store")
        require_source(self.path, found, self.source)
        require_whole(self.path, found)
        if judges is None or (found.values and found.values.covers(judges.source())):
            return found
        return None  # the answers are there, and are to be compared or graded

    def _make(self, judges: Judges | None, progress: ProgressDisplay) -> Manifest:
        """Draw, and judge answers while others are drawn; a killed one continues."""
        parts = parts_of(self.path, self.source, None, size=CHUNK)
        values = None if judges is None else judges.source()
        kept = parts_of(self.path, self.source, values, size=CHUNK, what=".values")
        valuing = Valuing(judges, kept) if judges is not None else None
        with timed(self.path):
            with valuing or nullcontext():
                take = valuing.take if valuing else lambda _index, _groups: None
                if is_made(self.path):
                    groups = read_pieces(self.path / GROUPS_FILE)
                    for index, chunk in enumerate(groups):
                        take(index, chunk)
                else:
                    groups = self._drawn(parts, progress, take)
                about, table = sizes(groups), None
                if valuing is not None:
                    table = self._values(valuing, about["answers"], progress)
                    about |= agreement_counts(values_by_prompt(table))
            manifest = write_store(
                self.path,
                source=self.source,
                groups=groups,
                values=table,
                value_source=values,
                about=about,
            )
            kept.remove()
            parts.remove()
        return manifest

    def _values(self, valuing: Valuing, answers: int, progress: ProgressDisplay) -> pa.Table:
        with progress.task(f"store {self.planned.name}: agreement", answers, "answers") as advance:
            return valuing.values(on_progress=lambda amount: advance(amount, ""))

    def _drawn(
        self,
        parts: TableParts,
        progress: ProgressDisplay,
        on_chunk: Callable[[int, pa.Table], None] = lambda _index, _groups: None,
    ) -> list[pa.Table]:
        recipe, total = self.plan.recipe, len(self.problems) * self.store.answers
        with (
            drawing(self.plan, self.model, self.plan.initial) as draw,
            progress.task(f"store {self.planned.name}", total, "samples") as advance,
        ):
            if isinstance(draw, GradedSampler) and self.store.prompts == "beginning":
                draw = replace(draw, encode=self._beginning())
            chosen = StoreDraw(
                model=self.model,
                sampler=draw,
                answers=self.store.answers,
                top=None if self.store.top == "all" else self.store.top,
                seed=self.seed,
                scorer=scorer_of(recipe, self.plan.prompts.tokenizer),
            )
            return drawn_groups(
                self.problems,
                chosen,
                parts,
                on_progress=lambda amount: advance(amount, ""),
                on_chunk=on_chunk,
            )

    @cached_property
    def seed(self) -> int:
        """Of the answers."""
        return derived_seed(self.planned.seed, "store")

    @cached_property
    def source(self) -> Source:
        """The key of the store: what it is made from."""
        source = answer_source(
            self.plan,
            self.model,
            prompts=self.store.prompts,
            prompts_fingerprint=self.plan.prompts.fingerprint(self.problems),
            answers=self.store.answers,
            top=self.store.top,
            seed=self.seed,
        )
        return with_environment(source, self.plan.verifier)

    def _beginning(self) -> Callable[[Problem], tuple[int, ...]]:
        begin = self.plan.prompts.tokenizer.bos_token_id
        if begin is None:
            raise ModelError(
                f"{self.planned.key}.prompts = 'beginning' draws from the beginning-of-sequence "
                "token, and the tokenizer has none: choose other prompts"
            )
        return lambda _: (int(begin),)

    def _require_prompts_fit(self) -> None:
        if self.store.prompts == "beginning":
            self._beginning()
        else:
            limit = self.plan.recipe.sampling.max_tokens
            self.plan.prompts.require_fit(self.model.config, self.problems, max_tokens=limit)


def require_made(plan: RunPlan) -> None:
    """Refuse to train while a store is missing.

    Raises:
        PoolError: names it, and what makes it.
        SettingsError: a file of prompts is not named.
    """
    require_named_files(plan)
    for name, store in plan.stores.items():
        if not is_made(store.path):
            raise PoolError(
                f"there is no store {name!r} in {store.path}; run `dph presample` first"
            )

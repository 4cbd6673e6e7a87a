"""Running a study: as many runs at a time as there is room for, until nothing is left to do."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dph._processes.jobs import CoreJobs, Job, JobEnd
from dph.errors import TrainingError
from dph.runs.progress import ProgressDisplay
from lab.study.candidates import Candidate
from lab.study.costs import outlook
from lab.study.plan import REPORT, Plan, Run, RunSelection
from lab.study.planner import Planner
from lab.study.rows import Places, RunRow, is_prepared, read_row_files, read_rows, require_one_base
from lab.study.rule_lock import current_lock, write_lock
from lab.study.settings import BASE


@dataclass(slots=True, kw_only=True)
class _State:
    """Jobs that are finished, running, and failed."""

    rows: dict[str, RunRow]
    running: dict[str, Run] = field(default_factory=dict)
    preparing: dict[str, tuple[str, int]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    blocked: set[tuple[str, int]] = field(default_factory=set)
    """Worlds of a seed that could not be prepared."""


LAST_SECONDS = 60.0
"""Of a share: a step ends and a checkpoint is written in them; a tenth of a shorter one."""


class Runner:
    """Goes through a study's plan; the plan is made anew whenever a run has ended."""

    def __init__(
        self,
        planner: Planner,
        places: Places,
        jobs: CoreJobs,
        *,
        wanted: RunSelection | None = None,
        device: str = "cpu",
        minutes: float | None = None,
    ) -> None:
        self._planner, self._places, self._jobs = planner, places, jobs
        self._wanted = wanted or RunSelection()
        self._rule = planner.study.rule_sha256
        self._device, self._minutes = device, minutes
        self._until = float("inf")

    def run(self, progress: ProgressDisplay) -> dict[str, RunRow]:
        """Make every run that is missing, or a share of them; returns all that are finished.

        A share ends after its minutes: what still runs is asked to leave a checkpoint, and goes on
        in the next share.
        """
        state = _State(rows=read_rows(self._places))
        plan = self._planner.plan(state.rows)
        self._lock(plan, state)
        patience = 0.0
        if self._minutes is not None:
            patience = min(LAST_SECONDS, 6 * self._minutes)
            self._until = time.monotonic() + 60 * self._minutes - patience
        try:
            self._loop(plan, state, progress)
        except TimeoutError:
            progress.say(f"the share of {self._minutes:g} minutes ends")
        finally:
            self._jobs.close(patience=patience)
        state.rows = read_rows(self._places)
        if state.failed:
            name, reason = next(iter(state.failed.items()))
            raise TrainingError(
                f"{len(state.failed)} of the study's jobs failed, first {name}: {reason}; the same "
                "command tries them again"
            )
        return state.rows

    def _lock(self, plan: Plan, state: _State) -> None:
        """Hold the rule, and the choices that runs on report seeds rest on."""
        study, reported = self._planner.study, [run for run in plan.runs if run.split == REPORT]
        chosen = {(r.variant.site.name, r.label) for r in reported if r.id in state.rows}
        choices = {place: plan.choices[place] for place in chosen & plan.choices.keys()}
        lock = current_lock(study, self._places, state.rows)
        write_lock(study, self._places, lock, choices)

    def _loop(self, plan: Plan, state: _State, progress: ProgressDisplay) -> None:
        self._tidy(plan, state)
        while True:
            self._start_what_fits(plan, state)
            if not state.running and not state.preparing:
                return
            ended = self._jobs.wait(until=self._until)
            self._take(ended, state)
            failed = f" failed: {ended.error}" if ended.error else ""
            plan = self._planner.plan(state.rows)
            self._lock(plan, state)
            self._tidy(plan, state)
            asked = self._wanted.of(plan)
            ahead = outlook(asked, self._places, state.rows, self._jobs.capacity)
            progress.say(f"{ahead}: {ended.id}{failed}")

    def _start_what_fits(self, plan: Plan, state: _State) -> None:
        wanted = [run for run in plan.missing(state.rows) if self._wanted(run)]
        left = [run for run in wanted if run.id not in state.failed]
        for run in left:
            if len(state.running) + len(state.preparing) >= self._jobs.capacity:
                return
            place = (run.variant.site.name, run.seed)
            if place in state.preparing.values() or place in state.blocked:
                continue
            base = self._planner.variants.base(run.variant.site).run_id(run.seed)
            here = [r for r in left if (r.variant.site.name, r.seed) == place]
            work = self._places.work(*place)
            pools = self._pools(run, here, plan)
            if base not in state.rows or not is_prepared(work, base, list(pools)):
                self._prepare(run, base, pools, state)
                continue
            # Another run may be training the weights that this one needs.
            directory = run.variant.training_id(run.seed)
            busy = {r.variant.training_id(r.seed) for r in state.running.values()}
            if run.id not in state.running and directory not in busy:
                self._jobs.start(Job(run.id, self._payload(run, state)))
                state.running[run.id] = run

    def _pools(self, run: Run, here: Sequence[Run], plan: Plan) -> dict[str, Mapping[str, Any]]:
        """The pools, with their settings, that runs here read, or will when they are decided."""
        site = run.variant.site
        pools: dict[str, Mapping[str, Any]] = {}
        labels = {other.label for other in here}
        for method in self._planner.study.file.methods:
            variant = self._planner.variants.of(site, method, Candidate())
            mine = replace(run, variant=variant, label=method.label)
            decided = (site.name, method.label) in plan.choices
            if variant.asked is None or variant.pool is None or not self._wanted(mine):
                continue
            if method.label in labels or not decided:
                settings = variant.asked.settings
                pools[variant.pool] = {
                    k: v for k, v in settings.items() if k.startswith("presample.")
                }
        return pools

    def _prepare(self, run: Run, base: str, pools: Mapping[str, Any], state: _State) -> None:
        place, job = (run.variant.site.name, run.seed), f"{base}.prepare"
        # The base model that finished runs on this world and seed began with.
        began = (r.base_sha256 for r in state.rows.values() if (r.world, r.seed) == place)
        payload = self._common(run, state) | {
            "kind": "prepare",
            "run": base,
            "settings": dict(run.variant.site.settings),
            "pools": pools,
            "base_sha256": next(began, None),
            "scored": base in state.rows,
        }
        self._jobs.start(Job(job, payload))
        state.preparing[job] = place

    def _payload(self, run: Run, state: _State) -> dict[str, Any]:
        variant = run.variant
        assert variant.asked is not None
        return self._common(run, state) | {
            "kind": "run",
            "run": run.id,
            "training": variant.training_id(run.seed),
            "asked": asdict(variant.asked),
            "interpolate": variant.interpolate,
            "step": variant.step,
            "layers": variant.layers,
            "pool": variant.pool,
            "rule": self._rule if run.split == REPORT else None,
        }

    def _common(self, run: Run, state: _State) -> dict[str, Any]:
        site, place = run.variant.site, (run.variant.site.name, run.seed)
        made = (r.processor for r in state.rows.values() if (r.world, r.seed) == place)
        return {
            "device": self._device,
            "processor": next(made, None),
            "site": site.as_json(),
            "seed": run.seed,
            "budget": self._planner.study.file.budget.model_dump(),
            "work": str(self._places.work(site.name, run.seed)),
            "rows": str(self._places.rows),
            "costs": str(self._places.costs),
        }

    def _take(self, ended: JobEnd, state: _State) -> None:
        place = state.preparing.pop(ended.id, None)
        state.running.pop(ended.id, None)
        if ended.error:
            state.failed[ended.id] = ended.error
            if place is not None:
                state.blocked.add(place)
            return
        state.rows.update(read_row_files(self._places.rows))
        require_one_base(state.rows.values())

    def _tidy(self, plan: Plan, state: _State) -> None:
        """Remove directories of finished runs, where only scores are kept."""
        if self._planner.study.file.study.keep == "checkpoints":
            return
        needed = {r.variant.training_id(r.seed) for r in plan.missing(state.rows)}
        for run in plan.runs:
            name = run.variant.training_id(run.seed)
            directory = self._places.work(run.variant.site.name, run.seed) / name
            if run.label != BASE and name not in needed and directory.exists():
                shutil.rmtree(directory)


def core_jobs(capacity: int, places: Places) -> CoreJobs:
    """At most ``capacity`` runs at a time; what a failed one said is in the study's logs."""
    return CoreJobs(capacity, places.log, entry="lab.study.execute:execute")

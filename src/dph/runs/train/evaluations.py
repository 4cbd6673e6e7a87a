"""Evaluation during training: drawn between two steps, graded while the next one rolls out.

Nothing here touches the weights, their gradients or a random stream of training: a sample depends
on (``evaluate.seed``, problem, sample index). Every step draws the same random numbers, so that
only the policy changes from step to step, and ``dph evaluate`` draws others, so that a checkpoint
that was chosen as the best is measured anew at the end.

An evaluation is whole once its rows are in ``progress.parquet``. A run that was killed before that
draws it again from its checkpoint; rows of steps after the checkpoint are cut off.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.closing import Closing
from dph._base.randomness import derived_seed
from dph.errors import CheckpointError, DataError
from dph.model.forward.scorer import ComparedTokens
from dph.model.sampler.base import Sampler
from dph.model.sampler.graded import Drawn
from dph.recipe import EvaluationSettings
from dph.runs.directory import RunDirectory
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.evaluate.progress_file import (
    PROGRESS,
    BaseDistance,
    best_score,
    measured_steps,
    progress_row,
    read_progress_file,
    rows_of_step,
    rows_up_to,
    step_metrics_of,
    step_summary,
    write_progress_file,
)
from dph.runs.evaluate.tables import digest_of, write_table
from dph.runs.presample.tables import WRITTEN
from dph.runs.train.kept_samples import SampleTable, graded_table
from dph.runs.train.tracking import Metrics
from dph.runs.train.updating import TrainingForward

SCHEMA = 1
_COLUMNS = pa.schema(
    [
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
    ]
)


class AnswerTokens(NamedTuple):
    """Tokens of an answer; in a trajectory, flags of those that the policy wrote."""

    token_ids: tuple[int, ...]
    written: tuple[bool, ...] | None = None


Group = Sequence[AnswerTokens]
"""Some answers to one problem."""
Answers = Mapping[str, Sequence[Group]]
"""By set, for each of its problems in order, some answers."""


def write_initial_answers(
    path: Path, answers: Answers, problem_ids: Mapping[str, Sequence[str]], *, digest: str
) -> None:
    """Write the initial policy's answers, with which later policies are compared.

    ``digest`` is of the settings that they were drawn with.
    """
    rows = [
        {"set": name, "problem_id": problem, "sample_index": index, **answer._asdict()}
        for name, groups in answers.items()
        for problem, group in zip(problem_ids[name], groups, strict=True)
        for index, answer in enumerate(group)
    ]
    acting = any(row["written"] is not None for row in rows)
    columns = _COLUMNS.append(WRITTEN) if acting else _COLUMNS
    write_table(path, pa.Table.from_pylist(rows, schema=columns), digest=digest, schema=SCHEMA)


def read_initial_answers(
    path: Path, problem_ids: Mapping[str, Sequence[str]], *, digest: str
) -> Answers | None:
    """The answers to the problems of every set; None if there are none with this digest."""
    if digest_of(path) != digest:
        return None
    try:
        found: dict[tuple[str, str], list[AnswerTokens]] = {}
        for row in pq.read_table(path).to_pylist():
            written = row.get(WRITTEN.name)
            flags = None if written is None else tuple(written)
            answer = AnswerTokens(tuple(row["token_ids"]), flags)
            found.setdefault((row["set"], row["problem_id"]), []).append(answer)
        return {
            name: [found[name, problem] for problem in problems]
            for name, problems in problem_ids.items()
        }
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{path} is damaged: {error}; remove it to continue") from error


def drift(
    forward: TrainingForward,
    prompts: Sequence[Sequence[int]],
    new: Sequence[Group],
    stored: Sequence[Group] | None,
) -> list[BaseDistance | None]:
    """Entropy and both divergences for each problem, means over the tokens of its answers.

    ``new`` are answers that the policy drew just now. Their reverse KL is an unbiased estimate of
    that of whole answers, in nats a token: positions come as the policy meets them. ``stored`` are
    answers of the initial policy, of which the same holds for the forward KL. The other two are
    taken on the other policy's answers: they say how far the policies are apart there, and do not
    estimate a divergence of whole answers. ``stored`` None: the new ones are the initial policy's
    own. None if no answer has a token of the policy.

    ``forward`` says how the policy is scored, and holds the initial policy as its reference.
    """
    assert forward.reference is not None
    # All in one call: prompts and other common beginnings are computed once.
    both = [[*mine, *theirs] for mine, theirs in zip(new, stored or [()] * len(new), strict=True)]
    answers = [answer for group in both for answer in group]
    scored = iter(
        forward.compared(
            forward.model,
            forward.reference,
            [prompt for prompt, group in zip(prompts, both, strict=True) for _ in group],
            [answer.token_ids for answer in answers],
            [answer.written for answer in answers],
        )
    )
    found = []
    for mine, group in zip(new, both, strict=True):
        on_new = list(islice(scored, len(mine)))
        on_stored = list(islice(scored, len(group) - len(mine)))
        found.append(_joined(on_new, on_new if stored is None else on_stored))
    return found


def _joined(new: Sequence[ComparedTokens], stored: Sequence[ComparedTokens]) -> BaseDistance | None:
    if not (any(map(len, new)) and any(map(len, stored))):
        return None
    return BaseDistance(
        entropy=fmean(value for tokens in new for value in tokens.entropy),
        reverse_kl=fmean(value for tokens in new for value in tokens.reverse_kl),
        forward_kl=fmean(value for tokens in new for value in tokens.forward_kl),
        stored_reverse_kl=fmean(value for tokens in stored for value in tokens.reverse_kl),
        stored_forward_kl=fmean(value for tokens in stored for value in tokens.forward_kl),
        compared_tokens=sum(map(len, new)),
        stored_tokens=sum(map(len, stored)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvaluation:
    """Measurements of the policy after ``step``, with the score of ``keep_best``.

    ``tables`` for trackers have the answers that were just graded.
    """

    step: int
    metrics: Metrics
    score: float | None
    tables: Sequence[SampleTable] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrawnSet:
    name: str
    sampled: Drawn
    greedy: Drawn | None
    compared: Sequence[BaseDistance | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    step: int
    sets: Sequence[_DrawnSet]
    seconds: float
    closing: ExitStack


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialPolicy:
    """The sampler of the policy before training.

    ``forward`` scores the policy that is trained, and has the initial one as its reference.
    """

    sampler: Sampler
    forward: TrainingForward


class Evaluations(Closing):
    """The evaluations of one run; at most one of them is being graded at a time.

    ``sets`` have the policy's sampler, ``digest`` is of all that their rows depend on but the
    policy. ``initial`` None: the policy is not compared. Trackers show ``shown`` answers of a set.
    """

    def __init__(
        self,
        directory: Path,
        sets: Sequence[EvaluationSet],
        settings: EvaluationSettings,
        *,
        digest: str,
        initial: InitialPolicy | None = None,
        shown: int = 0,
    ) -> None:
        run = RunDirectory(directory)
        self._path, self._stored_path = run.progress, run.initial_progress
        self._sets, self._settings, self._digest = tuple(sets), settings, digest
        self._initial, self._shown = initial, shown
        self._ids = {s.name: [p.problem_id for p in s.problems] for s in sets}
        self._table = PROGRESS.empty_table()
        self._stored: Answers | None = None
        self._pending: _Pending | None = None

    def require_same_settings(self) -> None:
        """Refuse to add to a file of other settings."""
        if digest_of(self._path) not in (None, self._digest):
            raise CheckpointError(
                f"{self._path} was measured with other settings ([evaluate], its sets or their "
                "graders); undo the change, or move the file away to start a new one"
            )

    def go_on(self, step: int) -> list[StepEvaluation]:
        """Continue at ``step``: cut off later rows, and measure what is missing up to there.

        The result is what is known already; the answers of ``step`` itself may still be graded.
        """
        whole = read_progress_file(self._path)
        # Before the first step, the rows of step 0 may be of another initial policy.
        self._table = rows_up_to(whole, step or -1)
        if len(self._table) < len(whole):
            self._write()
        if self._initial is not None and step:
            self._stored = read_initial_answers(self._stored_path, self._ids, digest=self._digest)
        measured = []
        lacks_initial = self._is_missing(0) or (self._initial is not None and self._stored is None)
        if lacks_initial and step and self._initial is not None:
            self.begin(0, self._initial)
            measured += self.finish()
        if (lacks_initial and not step) or (self.is_due(step) and self._is_missing(step)):
            self.begin(step)
        elif step in measured_steps(self._table) and step:
            measured.append(self._measured(step, {}))
        return measured

    def is_due(self, step: int) -> bool:
        """After every ``evaluate.every``-th step."""
        return bool(self._settings.every) and step % self._settings.every == 0

    def begin(self, step: int, instead: InitialPolicy | None = None) -> None:
        """Draw the answers of the policy after ``step``, or of ``instead``, and start grading."""
        started = time.perf_counter()
        with ExitStack() as stack:
            sets = [self._draw(chosen, step, instead, stack) for chosen in self._sets]
            self._pending = _Pending(
                step=step, sets=sets, seconds=time.perf_counter() - started, closing=stack.pop_all()
            )

    def finish(self) -> list[StepEvaluation]:
        """Wait for the verdicts of an evaluation that was begun, and write its rows."""
        pending, self._pending = self._pending, None
        if pending is None:
            return []
        started, seed = time.perf_counter(), self._settings.seed
        rows, tables = [], []
        with pending.closing:
            for one in pending.sets:
                sampled = one.sampled.rollout().groups
                greedy = None if one.greedy is None else one.greedy.rollout().groups
                firsts = [None] * len(sampled) if greedy is None else [first for (first,) in greedy]
                rows += [
                    progress_row(pending.step, one.name, group, first, compared)
                    for group, first, compared in zip(sampled, firsts, one.compared, strict=True)
                ]
                if self._shown:
                    shown = {"step": pending.step, "most": self._shown, "seed": seed}
                    problems = one.sampled.problems
                    tables.append(graded_table(problems, sampled, greedy, name=one.name, **shown))
        if pending.step == 0 and self._initial is not None:
            self._stored = {drawn.name: self._first(drawn.sampled) for drawn in pending.sets}
            write_initial_answers(self._stored_path, self._stored, self._ids, digest=self._digest)
        table = pa.Table.from_pylist(rows, schema=PROGRESS)
        before = rows_up_to(self._table, pending.step - 1)
        after = self._table.slice(len(rows_up_to(self._table, pending.step)))
        self._table = pa.concat_tables([before, table, after])
        self._write()
        drawn = [d for s in pending.sets for d in (s.sampled, s.greedy) if d is not None]
        sampling = sum(d.sampling_seconds for d in drawn)
        seconds = {
            "eval/seconds_sampling": sampling,
            "eval/seconds_comparing": pending.seconds - sampling,
            "eval/seconds_waiting": time.perf_counter() - started,
        }
        return [replace(self._measured(pending.step, seconds), tables=tables)]

    def close(self) -> None:
        """Abandon an evaluation that is still being graded."""
        if self._pending is not None:
            self._pending.closing.close()
            self._pending = None

    def _draw(
        self, chosen: EvaluationSet, step: int, instead: InitialPolicy | None, stack: ExitStack
    ) -> _DrawnSet:
        draw, during = chosen.draw.counted_together(), self._settings.during
        if instead is not None:
            draw = replace(draw, sampler=instead.sampler)
        seed = derived_seed(self._settings.seed, "evaluation during training")
        begun = draw.begin(chosen.problems, samples=during.samples, seed=seed)
        sampled: Drawn = stack.enter_context(begun)
        greedy: Drawn | None = None
        if during.greedy:
            likeliest = replace(draw, parameters=replace(draw.parameters, greedy=True))
            greedy = stack.enter_context(likeliest.begin(chosen.problems, samples=1, seed=seed))
        compared: Sequence[BaseDistance | None] = [None] * len(chosen.problems)
        if self._initial is not None:
            forward = self._initial.forward
            if instead is not None and forward.reference is not None:
                forward = replace(forward, model=forward.reference)
            stored = self._stored[chosen.name] if step and self._stored is not None else None
            compared = drift(forward, sampled.prompts, self._first(sampled), stored)
        return _DrawnSet(name=chosen.name, sampled=sampled, greedy=greedy, compared=compared)

    def _first(self, drawn: Drawn) -> list[list[AnswerTokens]]:
        return [
            [AnswerTokens(c.token_ids, c.written) for c in group[: self._settings.during.compared]]
            for group in drawn.completions
        ]

    def _is_missing(self, step: int) -> bool:
        return bool(self._settings.every) and step not in measured_steps(self._table)

    def _measured(self, step: int, seconds: Metrics) -> StepEvaluation:
        rows, best_by = rows_of_step(self._table, step), self._settings.best_by
        summary = step_summary(rows, ks=self._settings.during.k, seed=self._settings.seed)
        score = None if best_by is None else best_score(summary, best_by)
        metrics = {**step_metrics_of(summary), **seconds} if summary else {}
        return StepEvaluation(step=step, metrics=metrics, score=score)

    def _write(self) -> None:
        write_progress_file(self._path, self._table, digest=self._digest)

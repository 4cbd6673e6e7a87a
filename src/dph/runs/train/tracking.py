"""Metrics: always one JSON line for each step, and the trackers of accelerate on request."""

import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from dph._base.files import write_json_lines
from dph.errors import SettingsError
from dph.recipe import Recipe, TrackingSettings
from dph.recipe.section import flat
from dph.records import UNGRADED, GradedCompletion, Outcome
from dph.runs.directory import read_metrics
from dph.runs.evaluate.metrics import effective_styles, style_shares
from dph.runs.train.collect import Collected, Group
from dph.runs.train.kept_samples import COLUMNS, SampleTable
from dph.runs.train.updating import LogprobGap, UpdateReport

Metrics = Mapping[str, float | int | None]


def step_metrics(
    collected: Collected,
    reports: Sequence[UpdateReport],
    gap: LogprobGap | None,
    *,
    step: int,
    learning_rate: float,
) -> dict[str, float | int | None]:
    """The metrics of one step, except its total time and its memory.

    ``zero_variance`` and outcomes are of all labelled answers that were drawn, ``reward`` and
    ``correct`` of those that could be graded, entropy, lengths and styles of all answers.
    ``ungradable`` counts the groups that were left out because of their gold answer. Loss terms are
    means over the step's optimizer steps; ``kl_penalty`` and ``divergence`` are the sums of the
    penalties and of the anchors before their weights, which also have their names if there are
    several. ``entropy`` (nats a token) is the mean of -log pi over the sampled tokens: without bias
    at top-p 1.
    """
    graded = [g for group in collected.drawn for g in group.completions]
    tokens = sum(g.completion.length for g in graded)
    groups = [group for group in collected.drawn if group.labelled]
    labelled = [g for group in groups for g in group.completions]
    judged = [g for g in labelled if g.verdict.outcome not in UNGRADED]
    outcomes = Counter(g.verdict.outcome for g in labelled)
    return {
        "step": step,
        "reward": _mean(g.verdict.reward for g in judged),
        "correct": _mean(g.verdict.outcome is Outcome.CORRECT for g in judged),
        "entropy": -sum(sum(g.completion.logprobs) for g in graded) / tokens if tokens else nan,
        **_styles(graded),
        "zero_variance": _mean(not group.has_signal for group in groups),
        "ungradable": sum(not group.gradable for group in groups),
        **_unlabelled([group for group in collected.drawn if not group.labelled]),
        "policy_loss": fmean(r.policy for r in reports),
        "kl_penalty": fmean(sum(r.penalties.values()) for r in reports),
        "divergence": fmean(sum(r.anchors.values()) for r in reports),
        **_by_name("penalty", [r.penalties for r in reports]),
        **_by_name("anchor", [r.anchors for r in reports]),
        "clipped_low": fmean(r.clipped_low for r in reports),
        "clipped_high": fmean(r.clipped_high for r in reports),
        "grad_norm": fmean(r.grad_norm for r in reports),
        "learning_rate": learning_rate,
        "completion_tokens": tokens / len(graded) if graded else nan,
        "unfinished": _mean(not g.completion.finished for g in graded),
        "refills": collected.refills,
        "rows": sum(r.rows for r in reports),
        "rows_packed": sum(r.packed for r in reports),
        "rows_skipped": sum(r.skipped for r in reports),
        "rows_masked": sum(r.masked for r in reports),
        "tokens_in_rows": sum(r.row_tokens for r in reports),
        "tokens_computed": sum(r.computed_tokens for r in reports),
        "sampler_gap": gap.mean if gap else None,
        "sampler_gap_max": gap.largest if gap else None,
        "tokens": tokens,
        "seconds_sampling": collected.sampling_seconds,
        "seconds_grading": collected.grading_seconds,
        **{f"outcome_{o.lower()}": outcomes[o] / len(labelled) for o in Outcome if outcomes[o]},
    }


def peak_memory() -> dict[str, float]:
    """The most memory that this process has held since it started, in GiB.

    ``peak_memory`` is resident memory, ``peak_memory_device`` what torch allocated on a CUDA device
    [only with one]. A resumed run is a new process, so its peaks begin again.
    """
    status = Path("/proc/self/status")
    if status.exists():  # Linux: a child inherits the ru_maxrss of its parent, but not its VmHWM
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        resident = int(line.split()[1]) * 1024
    else:
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resident *= 1 if sys.platform == "darwin" else 1024
    found = {"peak_memory": resident / 2**30}
    if on_device := torch.cuda.max_memory_allocated():
        found["peak_memory_device"] = on_device / 2**30
    return found


def _unlabelled(groups: Sequence[Group]) -> dict[str, float]:
    if not groups:
        return {}
    answers = [g for group in groups for g in group.completions]
    return {
        "unlabelled_reward": fmean(g.verdict.reward for g in answers),
        "unlabelled_without_result": fmean(
            g.verdict.outcome in (Outcome.NO_ANSWER, Outcome.CUT_OFF) for g in answers
        ),
        "unlabelled_zero_variance": fmean(not group.has_signal for group in groups),
    }


def _mean(values: Iterable[float]) -> float:
    """The mean, or NaN, which is written as null, of no values."""
    known = list(values)
    return fmean(known) if known else nan


def _by_name(kind: str, reports: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each term if there are several."""
    if len(reports[0]) == 1:
        return {}
    return {f"{kind}_{name}": fmean(report[name] for report in reports) for name in reports[0]}


def _styles(graded: Sequence[GradedCompletion]) -> dict[str, float | None]:
    shares = style_shares(g.style for g in graded if g.style is not None)
    return {
        "effective_styles": effective_styles(shares) if shares else None,
        **{f"style_{name}": share for name, share in shares.items()},
    }


class MetricsLog:
    """``metrics.jsonl``: one line for each step, cut back to the checkpoint on continuing."""

    def __init__(self, path: Path, *, step: int) -> None:
        """Keep the lines up to ``step``; later ones will be written again."""
        self._path = path
        write_json_lines(path, [line for line in read_metrics(path) if line["step"] <= step])

    def write(self, metrics: Metrics) -> None:
        """Append a line; a value that is not finite is written as null."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_plain(metrics)) + "\n")

    def amend(self, step: int, metrics: Metrics) -> None:
        """Add metrics that became known later to the line of their step; step 0 has no line."""
        lines = read_metrics(self._path)
        amended = [{**line, **_plain(metrics)} if line["step"] == step else line for line in lines]
        if amended != lines:
            write_json_lines(self._path, amended)


def _plain(metrics: Metrics) -> dict[str, float | int | None]:
    return {k: v if v is None or isfinite(v) else None for k, v in metrics.items()}


class Trackers:
    """TensorBoard, W&B and trackio, through accelerate."""

    def __init__(self, names: Sequence[Any]) -> None:
        self._trackers = names

    def log(self, metrics: Metrics, *, step: int) -> None:
        values = {k: v for k, v in metrics.items() if v is not None and k != "step"}
        for tracker in self._trackers:
            tracker.log(values, step=step)

    def log_tables(self, tables: Sequence[SampleTable], *, step: int) -> None:
        for tracker in self._trackers:
            for table in tables if tracker.name in _TABLES else ():
                _TABLES[tracker.name](tracker, table, step)

    def close(self) -> None:
        """Flush and end."""
        for tracker in self._trackers:
            tracker.finish()


def _send_to_wandb(tracker: Any, table: SampleTable, step: int) -> None:
    tracker.log_table(table.name, columns=list(COLUMNS), data=table.lines, step=step)


def _send_to_trackio(tracker: Any, table: SampleTable, step: int) -> None:
    """Trackio reads texts as Markdown; the answers of a model are code."""
    from trackio import Table  # noqa: PLC0415 - an extra

    cells = [[_fenced(x) if isinstance(x, str) and x else x for x in row] for row in table.lines]
    tracker.log({table.name: Table(columns=list(COLUMNS), data=cells)}, step=step)


def _fenced(text: str) -> str:
    """A text as code, in a fence that it cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


_TABLES: dict[str, Callable[[Any, SampleTable, int], None]] = {
    "wandb": _send_to_wandb,
    "trackio": _send_to_trackio,
}


def shown_answers(settings: TrackingSettings) -> int:
    """Answers of an evaluated set in a tracker's table; 0 if no tracker shows tables."""
    return settings.answers if _TABLES.keys() & set(settings.to) else 0


def open_trackers(
    settings: TrackingSettings, recipe: Recipe, directory: Path, *, name: str | None = None
) -> Trackers:
    """Start the trackers that the recipe names; ``name`` is the run's, else the recipe's."""
    if not settings.to:
        return Trackers(())
    try:
        from accelerate import PartialState  # noqa: PLC0415 - an extra
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"track.to = {list(settings.to)} needs accelerate: install dph-rl[{settings.to[0]}]"
        ) from error
    PartialState(cpu=True)
    trackers, called = [], name or recipe.name
    values = {
        key: value if isinstance(value, str | int | float | bool) else json.dumps(value)
        for key, value in flat(recipe.model_dump(mode="json"))
    }
    for kind in settings.to:
        cls = LOGGER_TYPE_TO_CLASS[kind]
        try:
            if cls.requires_logging_directory:
                tracker = cls(called, str(directory / "logs"))
            else:
                tracker = cls(settings.project, name=called)
            tracker.start()
        except ImportError as error:
            raise SettingsError(
                f"track.to names {kind!r}, which is not installed: install dph-rl[{kind}]"
            ) from error
        tracker.store_init_configuration(values)
        trackers.append(tracker)
    return Trackers(trackers)

"""What a step reports."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from statistics import fmean

from dph.records import GradedCompletion, Outcome
from dph.runs.evaluate.retention import effective_styles, style_shares
from dph.runs.train.collect import Collected, Group
from dph.runs.train.policy_rows import LogprobGap
from dph.runs.train.updating import UpdateReport

Metrics = Mapping[str, float | int | None]


def step_metrics(
    collected: Collected,
    reports: Sequence[UpdateReport],
    gap: LogprobGap | None,
    *,
    step: int,
    learning_rate: float,
) -> dict[str, float | int | None]:
    """The metrics of one step, except its total time.

    ``reward``, ``correct``, ``zero_variance`` and outcomes are over everything drawn that has
    labels, entropy, lengths and styles over all of it. Unlabelled groups have rewards of their own
    (``unlabelled_reward``), in a step that draws some.
    ``ungradable`` counts the groups that were left out because of their gold answer.
    ``kl_penalty`` and ``divergence`` are the sums of the penalties and of the anchors before their
    weights; where there are several, each also stands under its own name. Of anchors on
    distributions ``active_<name>`` is the share of rows that counted (all, unless there is a
    floor), and ``eta_<name>`` is the weight of an anchor that adapts it.
    ``entropy`` (nats a token) is the mean of -log pi over the sampled tokens: without bias at
    top-p 1. Loss terms are means over the step's optimizer steps.
    """
    graded = [g for group in collected.drawn for g in group.completions]
    tokens = sum(len(g.completion.token_ids) for g in graded)
    groups = [group for group in collected.drawn if group.labelled]
    labelled = [g for group in groups for g in group.completions]
    return {
        "step": step,
        "reward": _mean(g.verdict.reward for g in labelled),
        "correct": _mean(g.verdict.outcome is Outcome.CORRECT for g in labelled),
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
        **_by_name("active", [r.counting for r in reports], fewest=1),
        **_by_name("eta", [r.weights for r in reports], fewest=1),
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
        **_gap(gap),
        "tokens": tokens,
        "seconds_sampling": collected.sampling_seconds,
        "seconds_grading": collected.grading_seconds,
        **_outcomes(labelled),
    }


def _gap(gap: LogprobGap | None) -> dict[str, float | None]:
    return {
        "sampler_gap": gap.mean if gap else None,
        "sampler_gap_max": gap.largest if gap else None,
    }


def _unlabelled(groups: Sequence[Group]) -> dict[str, float]:
    """Of groups that are rewarded for agreeing; nothing where there are none."""
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
    """NaN, which is written as null, where there is nothing, such as no labelled problem."""
    known = list(values)
    return fmean(known) if known else nan


def _by_name(
    kind: str, reports: Sequence[Mapping[str, float]], *, fewest: int = 2
) -> dict[str, float]:
    """The mean of each term, where there are ``fewest`` of them or more."""
    names = list(reports[0])
    if len(names) < fewest:
        return {}
    return {f"{kind}_{name}": fmean(report[name] for report in reports) for name in names}


def _styles(graded: Sequence[GradedCompletion]) -> dict[str, float | None]:
    """Their effective number, and the share of each; unknown without a classifier."""
    shares = style_shares(g.style for g in graded if g.style is not None)
    return {
        "effective_styles": effective_styles(shares) if shares else None,
        **{f"style_{name}": share for name, share in shares.items()},
    }


def _outcomes(graded: Sequence[GradedCompletion]) -> dict[str, float]:
    counts = Counter(g.verdict.outcome for g in graded)
    return {f"outcome_{o.value.lower()}": counts[o] / len(graded) for o in Outcome if counts[o]}

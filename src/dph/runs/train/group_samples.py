"""What an advantage may read of a step's samples beside their rewards."""

from collections.abc import Sequence

import torch

from dph.errors import PoolError
from dph.loss.objectives import AnyAdvantage, GroupSamples, reads_of
from dph.recipe.term import BASE_CORRECT, LOGPROBS, REF_LOGPROBS
from dph.runs.presample.base_counts import BaseCounts
from dph.runs.train.collect import Group
from dph.runs.train.rows import PolicyRow


def group_samples(
    groups: Sequence[Group],
    rows: Sequence[PolicyRow],
    advantage: AnyAdvantage,
    base: BaseCounts | None,
) -> GroupSamples | None:
    """What ``advantage`` reads, and None where it reads nothing.

    Args:
        groups: of the step, all of one size.
        rows: their samples, group by group. Their old log-probs are the sampler's, whichever the
            ratio of the loss starts from, unless all rows were scored before (``policy_rows``).
        advantage: the term.
        base: what the initial policy did in pre-sampling.

    Raises:
        PoolError: it reads the initial policy's right answers, and they are not known.
    """
    reads = reads_of(advantage)
    if not reads:
        return None
    logprobs = lengths = initial = correct = None
    if LOGPROBS in reads:
        logprobs = torch.tensor([sum(row.old_logprobs) for row in rows]).view(len(groups), -1)
        lengths = torch.tensor([max(1, len(row.completion_ids)) for row in rows])
        lengths = lengths.view_as(logprobs)
    scored = [row.ref_logprobs for row in rows if row.ref_logprobs is not None]
    if REF_LOGPROBS in reads and len(scored) == len(rows):
        initial = torch.tensor([sum(values) for values in scored]).view(len(groups), -1)
    if BASE_CORRECT in reads:
        if base is None:
            raise PoolError(
                f"{advantage!r} reads how many answers of the initial policy were right, which "
                "only a pool says: run `dph presample` first"
            )
        ids = [group.completions[0].completion.problem_id for group in groups]
        correct = torch.tensor([base.of(problem_id) for problem_id in ids])
    return GroupSamples(
        logprobs=logprobs,
        lengths=lengths,
        ref_logprobs=initial,
        base_correct=correct,
        base_samples=base.samples if base and correct is not None else None,
    )

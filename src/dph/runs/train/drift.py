"""How far the policy is from the initial policy, on its own answers and on stored ones."""

from collections.abc import Sequence
from statistics import fmean

from dph.errors import DataError
from dph.model.forward.compared import ComparedTokens, compared_tokens
from dph.runs.evaluate.progress_file import Compared
from dph.runs.train.loss_batch import TrainingForward

Group = Sequence[Sequence[int]]
"""Tokens of some answers to one problem."""


def drift(
    forward: TrainingForward,
    prompts: Sequence[Sequence[int]],
    new: Sequence[Group],
    stored: Sequence[Group] | None,
) -> list[Compared]:
    """Entropy and both divergences for each problem, means over the tokens of its answers.

    ``new`` are answers that the policy drew just now. Their reverse KL is an unbiased estimate of
    that of whole answers, in nats a token: positions come as the policy meets them. ``stored`` are
    answers of the initial policy, of which the same holds for the forward KL. The other two are
    taken where the other policy goes: they say how far the policies are apart there, and are no
    estimate of a divergence of whole answers. ``stored`` None: the new ones are the initial
    policy's own.

    ``forward`` says how the policy is scored, and holds the initial policy as its reference.

    Raises:
        DataError: it holds none.
    """
    # All in one call: what rows begin with alike, their prompts, is computed once.
    both = [[*mine, *theirs] for mine, theirs in zip(new, stored or [()] * len(new), strict=True)]
    found = []
    for tokens, mine in zip(_scored(forward, prompts, both), new, strict=True):
        on_new, on_stored = tokens[: len(mine)], tokens[len(mine) :]
        found.append(_joined(on_new, on_new if stored is None else on_stored))
    return found


def _scored(
    forward: TrainingForward, prompts: Sequence[Sequence[int]], groups: Sequence[Group]
) -> list[list[ComparedTokens]]:
    if forward.reference is None:
        raise DataError("the policy is compared with the initial policy, and there is none here")
    rows = [(i, ids) for i, group in enumerate(groups) for ids in group]
    found = compared_tokens(
        forward.model,
        forward.reference,
        [prompts[i] for i, _ in rows],
        [ids for _, ids in rows],
        temperature=forward.temperature,
        pad_id=forward.pad_id,
        token_budget=forward.token_budget,
        dtype=forward.dtype,
        sharing=forward.sharing,
    )
    scored: list[list[ComparedTokens]] = [[] for _ in groups]
    for (i, _), tokens in zip(rows, found, strict=True):
        scored[i].append(tokens)
    return scored


def _joined(new: Sequence[ComparedTokens], stored: Sequence[ComparedTokens]) -> Compared:
    return Compared(
        entropy=fmean(value for tokens in new for value in tokens.entropy),
        reverse_kl=fmean(value for tokens in new for value in tokens.reverse_kl),
        forward_kl=fmean(value for tokens in new for value in tokens.forward_kl),
        stored_reverse_kl=fmean(value for tokens in stored for value in tokens.reverse_kl),
        stored_forward_kl=fmean(value for tokens in stored for value in tokens.forward_kl),
        compared_tokens=sum(map(len, new)),
        stored_tokens=sum(map(len, stored)),
    )

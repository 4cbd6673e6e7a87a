"""Steps that nothing can be learnt from: in every group all answers ended alike."""

from collections import Counter
from collections.abc import Sequence

from dph.records import Outcome
from dph.runs.train.collect import Group

_LIKELY = {
    Outcome.CORRECT: "does the verifier tell right from wrong, and are the problems hard enough?",
    Outcome.WRONG: "can the verifier call an answer right, and are the problems easy enough?",
    Outcome.NO_ANSWER: "does the prompt ask for answers in the form that the verifier looks for?",
    Outcome.INVALID: "does the prompt ask for answers in the form that the verifier looks for?",
    Outcome.TIMED_OUT: "the verifier may need longer than data.verifier_timeout",
    Outcome.OVER_LIMIT: "the answers ask for more than the verifier allows",
    Outcome.CUT_OFF: "the answers may need more tokens than sampling.max_tokens",
    Outcome.BAD_GOLD: "the gold answers, or where their databases lie, are wrong",
    Outcome.CRASHED: "the verifier is broken: the reasons are tracebacks",
}
"""What to look at first, by the outcome that everything had."""


def uniform_outcomes(groups: Sequence[Group]) -> str | None:
    """What to say of groups of which none holds two outcomes or two rewards; None where one does.

    Unlabelled groups are none of them: nobody graded those.
    Partial rewards within one outcome are something to learn from, so they count as different.
    """
    groups = [group for group in groups if group.labelled]
    if not groups or any(len(_ends(group)) > 1 for group in groups):
        return None
    counts = Counter(g.verdict.outcome for group in groups for g in group.completions)
    if len(counts) == 1:
        (outcome, amount), *_ = counts.items()
        return f"all {amount} answers are {outcome.value}: {_LIKELY[outcome]}"
    several = ", ".join(f"{amount} {outcome.value}" for outcome, amount in counts.most_common())
    return f"in every group all answers ended alike ({several}): nothing tells them apart"


def _ends(group: Group) -> set[tuple[Outcome, float]]:
    return {(g.verdict.outcome, g.verdict.reward) for g in group.completions}

"""Terms that need more than log-probs of tokens, and so a training step made for them."""

from dph.loss.objectives.objective import Objective


def needs_whole_step(objective: Objective) -> dict[str, str]:
    """Places of such terms in ``[objective]``, and the need of each.

    An engine that computes a loss from log-probs of sampled tokens alone has to refuse them.
    """
    needs = {
        f"penalties.{name}": "needs whole next-token distributions"
        for name in objective.vocabulary_penalties
    }
    for place in objective.choosing:
        needs[place] = "chooses tokens among a whole mini-batch"
    for name, anchor in objective.anchors.items():
        if anchor.ascent is not None:
            needs[f"anchors.{name}.target"] = "adapts a weight from step to step"
    return needs

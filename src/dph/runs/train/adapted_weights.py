"""Weights of anchors that follow a target: what a run starts with, and how they go on."""

from collections.abc import Mapping

from dph.loss.objectives import Objective


def first_weights(objective: Objective) -> dict[str, float]:
    """The weight to start from, of every anchor that adapts its own."""
    return {
        name: anchor.weight
        for name, anchor in objective.anchors.items()
        if anchor.ascent is not None
    }


def next_weights(
    objective: Objective, weights: Mapping[str, float], measured: Mapping[str, float]
) -> dict[str, float]:
    """The weights after an optimizer step in which the anchors' values were ``measured``."""
    return {
        name: anchor.ascent.next(weights[name], measured=measured[name])
        for name, anchor in objective.anchors.items()
        if anchor.ascent is not None
    }

"""An ``Objective`` in the words of the papers: one KL penalty, one divergence, weight eta."""

from dph.loss.divergences import JensenShannonDefinition
from dph.loss.objectives import Anchor, ClippedSurrogate, KLPenalty, Objective, WeightedPenalty
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective


def objective_of(
    *,
    clip_low=0.2,
    clip_high=0.28,
    kl_coefficient=0.0,
    kl_estimator="k3",
    divergence=None,
    eta=0.0,
    js_definition=False,
):
    """The terms themselves, those of weight 0 too."""
    penalty = WeightedPenalty(penalty=KLPenalty(kl_estimator), weight=kl_coefficient)
    divergence = JensenShannonDefinition() if js_definition else divergence
    return Objective(
        surrogate=ClippedSurrogate(clip_low, clip_high),
        penalties={"kl": penalty} if kl_coefficient else {},
        anchors={"rehearsal": Anchor(divergence=divergence, weight=eta)} if divergence else {},
    )


def from_settings(**settings):
    return make_objective(ObjectiveSettings(**settings))

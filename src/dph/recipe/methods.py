"""The named methods: each is a row of plain settings, a label and a line of docs/methods.md.

A method that is one term and nothing more may have its row next to the formula's parameters, in
``dph.recipe.terms``. A recipe's own keys win over these. The coefficients are the paper's
(arXiv:2509.07430, Tables 6 and 7); they belong to its models and batch sizes, so a recipe for
another setting should choose its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from dph.recipe.terms import ADVANTAGES, DIVERGENCES, PENALTIES, SURROGATES, Method

_CLIP_HIGHER = {"surrogate": {"clip_low": 0.2, "clip_high": 0.28}}
_CLIP_EVENLY = {"surrogate": {"clip_low": 0.2, "clip_high": 0.2}}


def _rehearsing(divergence: str, weight: float, **parameters: Any) -> dict[str, dict[str, Any]]:
    """Clip-higher on the problems left open, and one divergence on the stored answers."""
    anchor = {"divergence": divergence, "weight": weight, **parameters}
    objective = {**_CLIP_HIGHER, "anchors": {"rehearsal": anchor}}
    return {"objective": objective, "train": {"problems": "exploration"}}


def _penalised(kind: str, weight: float) -> dict[str, dict[str, Any]]:
    """Clip-higher on all problems, and one penalty on the new samples, named by its kind."""
    return {"objective": {**_CLIP_HIGHER, "penalties": {kind: {"kind": kind, "weight": weight}}}}


METHOD_ROWS: Mapping[str, Method] = MappingProxyType(
    {
        "grpo": Method(
            settings={"objective": {**_CLIP_EVENLY}},
            label="GRPO",
            source="arXiv:2402.03300",
            formula="A = (r - mean) / std, ratio clipped to 1 +- 0.2",
            use="the baseline",
        ),
        "dapo": Method(
            settings={
                "objective": {**_CLIP_HIGHER, "dynamic_sampling": True, "overlong_buffer": 0.2}
            },
            label="DAPO",
            source="arXiv:2503.14476",
            formula="GRPO with clip 0.28 above, dynamic sampling, soft overlong penalty",
            cost="refills",
            use="long answers, many groups without signal",
        ),
        "rkl": Method(
            settings={
                "objective": {
                    **_CLIP_HIGHER,
                    "penalties": {"kl": {"estimator": "unbiased", "weight": 0.01}},
                }
            },
            label="RKL",
            source="arXiv:2402.03300, arXiv:2512.02556",
            strength="objective.penalties.kl.weight",
            formula="clip-higher + weight * (pi / pi_old) k3(pi, pi_ref) on new samples",
            cost="forward pass of the reference per step",
            use=(
                "to stay near the initial policy on the training problems; the paper's form is "
                '`estimator = "k3"`'
            ),
        ),
        "alpha": Method(
            settings=_rehearsing("alpha", 0.01, alpha=0.5),
            label="Alpha",
            source="arXiv:2509.07430",
            strength="objective.anchors.rehearsal.weight",
            formula=(
                "clip-higher on problems to explore + weight * alpha divergence on stored answers"
            ),
            cost="forward pass of stored rows",
            stored="pool: right answers and their log-probs",
            use="a compromise between reverse and forward KL",
        ),
        "dph_f": Method(
            settings=_rehearsing("forward_kl", 0.01),
            label="DPH-F",
            source="arXiv:2509.07430",
            strength="objective.anchors.rehearsal.weight",
            formula="the same with the forward KL, as k3",
            cost="forward pass of stored rows",
            stored="pool",
            use="if Pass@k must not fall",
        ),
        "dph_js": Method(
            settings=_rehearsing("jensen_shannon", 0.2),
            label="DPH-JS",
            source="arXiv:2509.07430",
            strength="objective.anchors.rehearsal.weight",
            formula="the same with Jensen-Shannon's generator",
            cost="forward pass of stored rows",
            stored="pool",
            use="as dph_f, but a token that the policy has lost stops pulling",
        ),
        "dph_js_definition": Method(
            settings=_rehearsing("jensen_shannon_definition", 0.2),
            label="DPH-JS definition",
            strength="objective.anchors.rehearsal.weight",
            formula="Jensen-Shannon by its definition, half on stored, half on new samples",
            cost="forward passes of stored rows and of the reference",
            stored="pool",
            use="to compare with dph_js",
        ),
        **{  # GRPO with another advantage
            name: replace(
                term.method, settings={"objective": {**_CLIP_EVENLY, "advantage": {"kind": name}}}
            )
            for name, term in ADVANTAGES.items()
            if term.method is not None
        },
        "flowrl": Method(
            settings={
                "objective": {
                    "advantage": {"kind": "flowrl"},
                    "surrogate": {"kind": "flow_balance", "clip_low": 0.2, "clip_high": 0.2},
                    "reduction": "sequence_mean",
                }
            },
            label="FlowRL",
            source="arXiv:2509.15207",
            strength="objective.advantage.beta",
            formula=(
                "(1/n) sum of w ((log pi(y) - log pi_old(y)) / |y| - A)^2, A = v - mean of v, v = "
                "beta A_GRPO + (log pi_ref(y) - log pi_old(y)) / |y|"
            ),
            cost="forward pass of the reference per step; no sample skipped",
            use="to make every answer as likely as its reward says, not only the best one",
        ),
        "entropy_bonus": Method(
            settings=_penalised("entropy", 0.001),
            label="Entropy bonus",
            strength="objective.penalties.entropy.weight",
            formula="clip-higher - weight * H(pi) at each position of new samples",
            cost="no extra forward pass",
            use="the cheapest guard against collapse; its weight is hard to choose",
        ),
        "exact_rkl": Method(
            settings=_penalised("exact_reverse_kl", 0.01),
            label="Exact RKL",
            strength="objective.penalties.exact_reverse_kl.weight",
            formula="clip-higher + weight * KL(pi || pi_ref), exact, at new samples",
            cost="forward pass of the reference per step",
            use="as `rkl`, without noise",
        ),
        "exact_fkl": Method(
            settings=_penalised("exact_forward_kl", 0.03),
            label="Exact FKL",
            strength="objective.penalties.exact_forward_kl.weight",
            formula="clip-higher + weight * KL(pi_ref || pi), exact, at new samples",
            cost="forward pass of the reference per step",
            use="to keep what the initial policy would say on the policy's own answers",
        ),
        "ttrl": Method(
            # a quarter of the usual 32 problems a step is rewarded for agreement
            settings={
                "objective": _CLIP_HIGHER,
                "self_consistency": {"problems_per_step": 8, "novel": True},
            },
            label="TTRL",
            source="arXiv:2504.16084",
            strength="self_consistency.problems_per_step",
            formula=(
                "clip-higher; some problems of a step have no label: there r = 1 for the largest "
                "class of equal answers in the group"
            ),
            use="no labels; watch Pass@k",
        ),
        **{
            name: term.method
            for table in (SURROGATES, PENALTIES, DIVERGENCES)
            for name, term in table.items()
            if term.method is not None
        },
    }
)
"""Every method by its name; docs/methods.md and the labels of reports are made of these rows."""

METHODS: dict[str, dict[str, dict[str, Any]]] = {
    name: dict(row.settings) for name, row in METHOD_ROWS.items()
}
"""Of every method the settings that are laid under a recipe's."""

STRENGTHS: dict[str, str | None] = {name: row.strength for name, row in METHOD_ROWS.items()}
"""Of every method its coefficient, which a study varies and ``method@value`` sets; or None."""

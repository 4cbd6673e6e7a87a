"""The named methods: each is a table of plain settings and nothing else.

A recipe's own keys win over these. The coefficients are the paper's (arXiv:2509.07430,
Tables 6 and 7); they belong to its models and batch sizes, so a recipe for another setting
should choose its own.
"""

from typing import Any

_CLIP_HIGHER = {"surrogate": {"clip_low": 0.2, "clip_high": 0.28}}
_CLIP_EVENLY = {"surrogate": {"clip_low": 0.2, "clip_high": 0.2}}
_EXPLORE = {"problems": "exploration"}


def _rehearsing(divergence: str, weight: float, **parameters: Any) -> dict[str, dict[str, Any]]:
    """Clip-higher on the problems left open, and one divergence on the stored answers."""
    anchor = {"divergence": divergence, "weight": weight, **parameters}
    return {"objective": {**_CLIP_HIGHER, "anchors": {"rehearsal": anchor}}, "train": _EXPLORE}


def _advantage(kind: str) -> dict[str, dict[str, Any]]:
    """GRPO with another advantage."""
    return {"objective": {**_CLIP_EVENLY, "advantage": {"kind": kind}}}


def _penalised(kind: str, weight: float) -> dict[str, dict[str, Any]]:
    """Clip-higher on all problems, and one penalty on the new samples, named by its kind."""
    penalty = {"kind": kind, "weight": weight}
    return {"objective": {**_CLIP_HIGHER, "penalties": {kind: penalty}}}


_NOVEL_PROMPTS = {"prompts": "unlabelled", "novel": True, "answers": 16, "limit": 600}
"""Of the store that ``dph_broad`` and ``consensus`` can share. A recipe says where the file is."""
_ALL_PROMPTS = {"prompts": "unlabelled", "answers": 16, "limit": 1200}
AFTER = "after"
"""The store of a consolidation: what the trained policy answers."""
_AFTER = {
    AFTER: {**_ALL_PROMPTS, "tilt": 4.0, "values": "distinct"},
}
CONSOLIDATION: dict[str, dict[str, Any]] = {
    "stores": _AFTER,
    "consolidation": {"updates": 200, "store": AFTER, "rate": 5.0},
}
"""What ``dph_broad`` does after RL, and ``dph consolidate`` to any run."""


def _then_learnt(values: str, prompts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Clip-higher on all problems, then the likelihood of chosen answers of the trained policy."""
    store = {**prompts, "values": values, "targets": "answers"}
    return {
        "objective": _CLIP_HIGHER,
        "stores": {AFTER: store},
        "consolidation": CONSOLIDATION["consolidation"],
    }


def _agreeing(reward: str, **more: Any) -> dict[str, dict[str, Any]]:
    """Clip-higher, with a quarter of the usual 32 problems a step rewarded for agreement."""
    section = {"problems_per_step": 8, "reward": reward, **more}
    return {"objective": _CLIP_HIGHER, "self_consistency": section}


METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "grpo": {"objective": {**_CLIP_EVENLY}},
    "dapo": {"objective": {**_CLIP_HIGHER, "dynamic_sampling": True, "overlong_buffer": 0.2}},
    "rkl": {
        "objective": {**_CLIP_HIGHER, "penalties": {"kl": {"estimator": "k3", "weight": 0.01}}}
    },
    "alpha": _rehearsing("alpha", 0.01, alpha=0.5),
    "dph_f": _rehearsing("forward_kl", 0.01),
    "dph_js": _rehearsing("jensen_shannon", 0.2),
    "dph_js_definition": _rehearsing("jensen_shannon_definition", 0.2),
    "dyjr": {
        "objective": {
            **_CLIP_HIGHER,
            "anchors": {
                # The paper's own weight and age are not known to us.
                "rehearsal": {"divergence": "jensen_shannon", "weight": 0.2, "recent": 4}
            },
        }
    },
    "maxrl": _advantage("maxrl"),
    "f_grpo": _advantage("f_grpo"),
    "ucpo": _advantage("ucpo"),
    "pass_at_k": _advantage("pass_at_k"),
    "pkpo": _advantage("pkpo"),
    "differential_smoothing": _advantage("differential_smoothing"),
    "bbg": _advantage("bbg"),
    "alpha_dpg": _advantage("alpha_dpg"),
    "flowrl": {
        "objective": {
            "advantage": {"kind": "flowrl"},
            "surrogate": {"kind": "flow_balance", "clip_low": 0.2, "clip_high": 0.2},
            "reduction": "sequence_mean",
        }
    },
    "entropy_bonus": _penalised("entropy", 0.001),
    "exact_rkl": _penalised("exact_reverse_kl", 0.01),
    "exact_fkl": _penalised("exact_forward_kl", 0.03),
    "clip_cov": {
        "objective": {
            "surrogate": {"kind": "clip_cov", "clip_low": 0.2, "clip_high": 0.2, "share": 2e-4}
        }
    },
    "kl_cov": {
        "objective": {
            "surrogate": {"kind": "unclipped"},
            "penalties": {"kl_cov": {"kind": "kl_cov", "share": 2e-3, "weight": 1.0}},
        }
    },
    "dph_broad": {
        "objective": {
            **_CLIP_HIGHER,
            "anchors": {
                "broad": {
                    "divergence": "distribution_kl",
                    "weight": 0.15,
                    "distributions": "broad",
                    "per_step": 96,
                    "whole_prompts": True,
                }
            },
        },
        **CONSOLIDATION,
        "stores": {"broad": {**_NOVEL_PROMPTS, "tilt": 4.0, "values": "distinct"}, **_AFTER},
    },
    "consolidation": {
        "objective": {
            "anchors": {
                "consolidation": {
                    "divergence": "distribution_kl",
                    "weight": 1.0,
                    "distributions": AFTER,
                    "per_step": 256,
                    "whole_prompts": True,
                }
            }
        },
        "stores": _AFTER,
        "train": {"steps": 200, "problems_per_step": 0, "minibatches": 1, "final_rate": 0.1},
    },
    "ttrl": _agreeing("majority", novel=True),
    "consensus": {
        **_agreeing("consensus", store="broad"),
        "stores": {"broad": _NOVEL_PROMPTS},
    },
    "lmsi": _then_learnt("majority", _ALL_PROMPTS),
    "rft": _then_learnt("correct", {"prompts": "train", "answers": 16}),
}

STRENGTHS: dict[str, str | None] = {
    "grpo": None,
    "dapo": None,
    "rkl": "objective.penalties.kl.weight",
    "alpha": "objective.anchors.rehearsal.weight",
    "dph_f": "objective.anchors.rehearsal.weight",
    "dph_js": "objective.anchors.rehearsal.weight",
    "dph_js_definition": "objective.anchors.rehearsal.weight",
    "dyjr": "objective.anchors.rehearsal.weight",
    "maxrl": None,
    "f_grpo": "objective.advantage.gamma",
    "ucpo": "objective.advantage.tau",
    "pass_at_k": "objective.advantage.k",
    "pkpo": "objective.advantage.k",
    "differential_smoothing": "objective.advantage.gamma_p",
    "bbg": "objective.advantage.k",
    "alpha_dpg": "objective.advantage.alpha",
    "flowrl": "objective.advantage.beta",
    "entropy_bonus": "objective.penalties.entropy.weight",
    "exact_rkl": "objective.penalties.exact_reverse_kl.weight",
    "exact_fkl": "objective.penalties.exact_forward_kl.weight",
    "clip_cov": "objective.surrogate.share",
    "kl_cov": "objective.penalties.kl_cov.weight",
    "dph_broad": "objective.anchors.broad.weight",
    "consolidation": "stores.after.tilt",
    "ttrl": "self_consistency.problems_per_step",
    "consensus": "self_consistency.problems_per_step",
    "lmsi": "consolidation.rate",
    "rft": "consolidation.rate",
}
"""Of every method the one setting that says how strong it is; None where there is nothing to set.

What a study tries several values of, and what ``method@value`` sets.
"""

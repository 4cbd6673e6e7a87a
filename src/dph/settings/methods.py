"""The named methods: each is a table of plain settings and nothing else.

A recipe's own keys win over these. The coefficients are the paper's (arXiv:2509.07430,
Tables 6 and 7); they belong to its models and batch sizes, so a recipe for another setting
should choose its own.
"""

from typing import Any

_CLIP_HIGHER = {"clip_low": 0.2, "clip_high": 0.28}
_EXPLORE = {"problems": "exploration"}

METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "grpo": {"objective": {"clip_low": 0.2, "clip_high": 0.2}},
    "dapo": {"objective": {**_CLIP_HIGHER, "dynamic_sampling": True, "overlong_buffer": 0.2}},
    "rkl": {"objective": {**_CLIP_HIGHER, "kl_coefficient": 0.01, "kl_estimator": "k3"}},
    "alpha": {
        "objective": {**_CLIP_HIGHER, "divergence": "alpha", "alpha": 0.5, "eta": 0.01},
        "train": _EXPLORE,
    },
    "dph_f": {
        "objective": {**_CLIP_HIGHER, "divergence": "forward_kl", "eta": 0.01},
        "train": _EXPLORE,
    },
    "dph_js": {
        "objective": {**_CLIP_HIGHER, "divergence": "jensen_shannon", "eta": 0.2},
        "train": _EXPLORE,
    },
    "dph_js_definition": {
        "objective": {
            **_CLIP_HIGHER,
            "divergence": "jensen_shannon",
            "js_definition": True,
            "eta": 0.2,
        },
        "train": _EXPLORE,
    },
}

"""What methods and metrics are called in tables and pictures."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

BASE = "base"

_METHODS: Mapping[str, str] = MappingProxyType(
    {
        BASE: "Base model",
        "dph_js_definition": "DPH-JS definition",
        "dph_js": "DPH-JS",
        "dph_f": "DPH-F",
        "dph_broad": "DPH-broad",
        "consolidation": "Consolidation",
        "ttrl": "TTRL",
        "consensus": "Consensus",
        "lmsi": "LMSI",
        "rft": "RFT",
        "grpo": "GRPO",
        "dapo": "DAPO",
        "alpha": "Alpha",
        "rkl": "RKL",
        "dyjr": "DyJR",
        "maxrl": "MaxRL",
        "f_grpo": "F-GRPO",
        "ucpo": "UCPO",
        "pass_at_k": "Pass@k training",
        "pkpo": "PKPO",
        "differential_smoothing": "Differential smoothing",
        "bbg": "BBG",
        "alpha_dpg": "Alpha-DPG",
        "flowrl": "FlowRL",
        "entropy_bonus": "Entropy bonus",
        "exact_rkl": "Exact RKL",
        "exact_fkl": "Exact FKL",
        "clip_cov": "Clip-Cov",
        "kl_cov": "KL-Cov",
    }
)
_USUAL_KS = ("8", "16")


def method_label(name: str) -> str:
    """The name of a method as people write it; what follows a known name stays.

    >>> method_label("dph_f"), method_label("rkl_0.3"), method_label("mine")
    ('DPH-F', 'RKL 0.3', 'mine')
    """
    for known in sorted(_METHODS, key=len, reverse=True):  # alpha_dpg is no alpha
        rest = name.removeprefix(known)
        if name.startswith(known) and (not rest or not rest[0].isalnum()):
            return f"{_METHODS[known]} {rest.lstrip('_-@ =')}".strip()
    return name


def set_label(name: str) -> str:
    """The name of a set with spaces.

    >>> set_label("cross_domain")
    'cross domain'
    """
    return name.replace("_", " ")


def models_of(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The ``sets`` of the base model, where there is one, and of every method, by name."""
    methods = {name: method["sets"] for name, method in summary["methods"].items()}
    return {BASE: summary["base"]["sets"], **methods} if summary["base"] else methods


def chosen_ks(pass_at_k: Mapping[str, Any], ks: Sequence[int] | None = None) -> list[str]:
    """The k to show: those asked for, else 8 and 16 if they are there, else the largest."""
    wanted = _USUAL_KS if ks is None else [str(k) for k in ks]
    return [k for k in wanted if k in pass_at_k] or [max(pass_at_k, key=int)]

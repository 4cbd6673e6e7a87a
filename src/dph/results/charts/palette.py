"""One colour and one marker for each method, one fill for each style, in every picture.

Methods: Okabe and Ito (2008), Color Universal Design, with two more from Tol's muted scheme.
Fills: Tol's light scheme (2021, SRON/EPS/TN/09-002), made for black text on top.
"""

import colorsys
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

# What methods and metrics are called in tables and pictures.

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


# What runs are called in a table: as much of their paths as tells them apart.


def run_labels(runs: Sequence[Path]) -> dict[str, str]:
    """The shortest unique end of each path, by the path as given.

    >>> run_labels([Path("/runs/a/x"), Path("/runs/b/x"), Path("/runs/c")])
    {'/runs/a/x': 'a/x', '/runs/b/x': 'b/x', '/runs/c': 'c'}
    """
    parts = {str(run): run.absolute().parts for run in runs}
    return {
        run: _shortest(mine, [other for name, other in parts.items() if name != run])
        for run, mine in parts.items()
    }


def _shortest(mine: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    for count in range(1, len(mine)):
        end = mine[-count:]
        if all(other[-count:] != end for other in others):
            return "/".join(end)
    return str(Path(*mine))


class Look(NamedTuple):
    """Line style of a method."""

    colour: str
    marker: str

    def size(self, points: float) -> float:
        """The marker's size where others have ``points``: a star fills less of its square."""
        return 1.6 * points if self.marker == "*" else points


_FIXED: Mapping[str, Look] = MappingProxyType(
    {
        BASE: Look("#4D4D4D", ""),
        "grpo": Look("#D55E00", "s"),
        "dapo": Look("#E69F00", "v"),
        "rkl": Look("#CC79A7", "^"),
        "alpha": Look("#56B4E9", "P"),
        "dph_f": Look("#0072B2", "o"),
        "dph_js": Look("#009E73", "D"),
        "dph_js_definition": Look("#882255", "X"),
        "dph_broad": Look("#332288", "*"),
    }
)
_SPARE = (
    Look("#CC79A7", "^"),
    Look("#999933", "<"),
    Look("#882255", "X"),
    Look("#56B4E9", "P"),
    Look("#E69F00", "v"),
    Look("#661100", ">"),
    Look("#44AA99", "p"),
    Look("#AA4466", "h"),
)
_GOLDEN = 0.6180339887498949
_FILLS = ("#77AADD", "#EE8866", "#EEDD88", "#44BB99", "#FFAABB", "#99DDFF", "#BBCC33", "#AAAA00")
_OTHER = "#DDDDDD"
MOST_STYLES = len(_FILLS)
"""So many styles have a fill of their own."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each method; one that is not known takes the next that is free.

    No two have the same colour, however many there are.
    """
    wanted = list(names)
    chosen = {name: _FIXED[name] for name in wanted if name in _FIXED}
    free = [look for look in _SPARE if look not in chosen.values()]
    others = [name for name in wanted if name not in chosen]
    more = itertools.chain(free, _further())
    return chosen | dict(zip(others, more, strict=False))


def _further() -> Iterator[Look]:
    """Looks without end, no colour twice: hues a golden section apart, markers in turn."""
    for i in itertools.count():
        red, green, blue = colorsys.hls_to_rgb((0.1 + i * _GOLDEN) % 1, (0.34, 0.46)[i % 2], 0.55)
        colour = "#" + "".join(f"{round(255 * part):02X}" for part in (red, green, blue))
        yield Look(colour, _SPARE[i % len(_SPARE)].marker)


def looks_by_method(methods: Mapping[str, str | None]) -> dict[str, Look]:
    """The look of each name: that of its method where no name before it has the same method."""
    keys: dict[str, str] = {}
    for name, method in methods.items():
        keys[name] = name if method is None or method in keys.values() else method
    chosen = looks(keys.values())
    return {name: chosen[key] for name, key in keys.items()}


def fills(styles: Iterable[str]) -> dict[str, str]:
    """The fill of each style, in order; ``other`` is grey."""
    named = [style for style in styles if style != "other"]
    chosen = {style: _FILLS[i % len(_FILLS)] for i, style in enumerate(named)}
    return chosen | {"other": _OTHER}

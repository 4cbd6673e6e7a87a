"""The names, colours and shapes of things in every table, picture and page, and the usual k."""

import colorsys
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from dph.errors import DataError, SettingsError
from dph.recipe.methods import METHOD_ROWS

BASE = "base"

_LABELS: Mapping[str, str] = MappingProxyType(
    {BASE: "Base model", **{name: row.label for name, row in METHOD_ROWS.items()}}
)


def method_label(name: str) -> str:
    """The name of a method as people write it; what follows a known name stays.

    >>> method_label("dph_f"), method_label("rkl_0.3"), method_label("mine")
    ('DPH-F', 'RKL 0.3', 'mine')
    """
    for known in sorted(_LABELS, key=len, reverse=True):  # dph_js_definition is no dph_js
        rest = name.removeprefix(known)
        if name.startswith(known) and (not rest or not rest[0].isalnum()):
            return f"{_LABELS[known]} {rest.lstrip('_-@ =')}".strip()
    return name


def unique_labels(names: Iterable[str]) -> dict[str, str]:
    """Labels of methods or runs by name; two that would have the same keep their names.

    >>> unique_labels(["dph_f", "grpo", "GRPO"])
    {'dph_f': 'DPH-F', 'grpo': 'grpo', 'GRPO': 'GRPO'}
    """
    called = {name: method_label(name) for name in names}
    said = list(called.values())
    return {name: label if said.count(label) == 1 else name for name, label in called.items()}


def set_label(name: str) -> str:
    """The name of a set with spaces."""
    return name.replace("_", " ")


def where_of(name: str) -> str:
    """The set as the place of a finding; the two usual sets have names that are places.

    >>> where_of("in_domain"), where_of("dev")
    ('in domain', 'on dev')
    """
    return set_label(name) if name.endswith("_domain") else f"on {set_label(name)}"


def models_of(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The ``sets`` of the base model, where there is one, and of every method, by name."""
    methods = {name: method["sets"] for name, method in summary["methods"].items()}
    return {BASE: summary["base"]["sets"], **methods} if summary["base"] else methods


def set_title(name: str) -> str:
    """The name of a set as the title of a panel."""
    label = set_label(name)
    return label[:1].upper() + label[1:]


def run_labels(runs: Sequence[Path]) -> dict[str, str]:
    """The shortest unique end of each path, by the path as given.

    >>> run_labels([Path("/runs/a/x"), Path("/runs/b/x"), Path("/runs/c")])
    {'/runs/a/x': 'a/x', '/runs/b/x': 'b/x', '/runs/c': 'c'}
    """
    parts = {str(run): run.absolute().parts for run in runs}
    labels = {}
    for run, mine in parts.items():
        others = [other for name, other in parts.items() if name != run]
        ends = (
            "/".join(mine[-count:])
            for count in range(1, len(mine))
            if all(other[-count:] != mine[-count:] for other in others)
        )
        labels[run] = next(ends, str(Path(*mine)))
    return labels


def chosen_ks(pass_at_k: Mapping[str, Any], ks: Sequence[int] | None = None) -> list[str]:
    """The k to show: those asked for, else 8 and 16 if they are there, else the largest."""
    wanted = ("8", "16") if ks is None else [str(k) for k in ks]
    return [k for k in wanted if k in pass_at_k] or [max(pass_at_k, key=int)]


def table_ks(samples: int) -> list[int]:
    """The k that a table shows: the usual ones that fit, else all samples.

    >>> table_ks(16), table_ks(3)
    ([8, 16], [3])
    """
    return [k for k in (8, 16, 32, 64, 128) if k <= samples] or [samples]


def require_shown_k(k: int, known: Iterable[str]) -> None:
    if str(k) not in (shown := list(dict.fromkeys(known))):
        raise DataError(f"there is no Pass@{k}, only of k = {', '.join(shown)}")


def shown_ks(samples: int) -> list[int]:
    """The k of a curve and of its table: powers of two, and all samples.

    >>> shown_ks(16), shown_ks(10)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 10])
    """
    powers = [2**i for i in range(samples.bit_length())]
    return sorted({*powers, samples, *table_ks(samples)})


PLAIN = ("greedy", "mean", "keep", "explore", "effective_styles")
_TITLES = {"mean": "mean@1", "cut_off": "cut off", "effective_styles": "effective styles"}


def value_of(summary: Mapping[str, Any], metric: str) -> float | None:
    """The metric's value, a fraction (effective styles: their number); None if it is unknown."""
    if metric in PLAIN:
        found = summary.get(metric)
    elif metric.startswith("pass_at_"):
        found = summary["pass_at_k"].get(metric.removeprefix("pass_at_"))
    else:
        raise SettingsError(f"no metric {metric!r}; there is {', '.join(PLAIN)}, pass_at_<k>")
    return None if found is None else float(found)


def interval_of(summary: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    found = summary["ci95"].get(metric)
    return None if found is None else (float(found[0]), float(found[1]))


def metric_title(metric: str) -> str:
    if metric.startswith("pass_at_"):
        return f"Pass@{metric.removeprefix('pass_at_')}"
    return _TITLES.get(metric, metric)


DEFINITIONS: Mapping[str, str] = MappingProxyType(
    {
        "greedy": "First try: the share of the problems whose greedy answer is correct. The greedy "
        "answer takes the likeliest token at every step.",
        "mean": "The mean reward of a problem's sampled answers: the share that is correct, unless "
        "the verifier gives partial credit.",
        "pass_at_k": "Pass@k: the chance that at least one of k sampled answers to a problem is "
        "correct, estimated without bias from all samples. At a large k it says how many "
        "problems are still within reach.",
        "effective_styles": "Ways of answering: the effective number of styles, the exponential of "
        "the entropy of the shares that styles have of the answers. 1 means that all answers look "
        "alike.",
        "keep": "Of the problems that the first answers of the initial policy solve (as many as "
        "evaluate.retention_k says), the share that as many of the run's next answers solve again. "
        "A second draw of the initial policy keeps fewer than all; pointing at a value shows how "
        "many.",
        "explore": "Of the problems that those first answers of the initial policy do not solve, "
        "the share that as many of the run's next answers solve.",
        "cut_off": "The share of the sampled answers that ended at the limit of tokens.",
        "lost": "Problems that the run answers correctly less often than the initial policy, each "
        "by more than two draws of one model would show.",
        "gained": "Problems that the run answers correctly more often than the initial policy, "
        "each by more than two draws of one model would show.",
        "cost": "Every stage of a run: the pre-sampling that it reads and training. A stage that "
        "runs share counts for each of them.",
        "interval": "95% intervals: of a run over problems (by the bootstrap, and exact where all "
        "problems have one value), of several seeds over "
        "seeds (Student's t). Differences, in points, are paired over the same problems. An arrow "
        "stands where the interval of a difference does not hold 0.",
    }
)
"""Words of pages that need an explanation, by what asks for it."""


K_AXIS, STEP_AXIS, STRENGTH_AXIS = "k (samples per problem)", "training step", "strength"
OVER_PROBLEMS, OVER_SEEDS = "95% over problems", "95% over seeds"


_TRAINING: Mapping[str, tuple[str, str]] = {
    "reward": ("Reward", ""),
    "correct": ("Correct answers", "%"),
    "effective_styles": ("Effective styles", ""),
    "entropy": ("Entropy", "nats a token"),
    "zero_variance": ("Groups without signal", "%"),
    "kl_penalty": ("KL penalty", "nats a token"),
    "divergence": ("Divergence on stored answers", "a token"),
    "policy_loss": ("Surrogate", ""),
    "clipped_low": ("Tokens clipped below", "%"),
    "clipped_high": ("Tokens clipped above", "%"),
    "completion_tokens": ("Length", "tokens"),
    "unfinished": ("Cut off", "%"),
    "grad_norm": ("Gradient norm", ""),
    "sampler_gap": ("Sampler against trainer", "nats a token"),
    "refills": ("Draws again", ""),
    "ungradable": ("Groups that could not be graded", ""),
    "unlabelled_reward": ("Reward without labels", ""),
    "learning_rate": ("Learning rate", ""),
    "seconds": ("Time of a step", "s"),
    "seconds_sampling": ("Time of sampling", "s"),
    "seconds_grading": ("Time of grading", "s"),
    "seconds_update": ("Time of the update", "s"),
    "peak_memory": ("Peak memory of the process", "GiB"),
    "peak_memory_device": ("Peak memory of the device", "GiB"),
    "tokens_per_second": ("Speed", "tokens per second"),
    "tokens_computed": ("Tokens computed in the update", "tokens"),
    "rows_skipped": ("Rows without signal", "rows"),
}
"""Metrics of metrics.jsonl: title and unit. Weights, single terms and outcomes follow by name."""
_MEASURED: Mapping[str, tuple[str, str]] = {
    "cut_off": ("Cut off", "%"),
    "entropy": ("Entropy", "nats a token"),
    "reverse_kl": ("KL(policy || initial), own answers", "nats a token"),
    "forward_kl": ("KL(initial || policy), own answers", "nats a token"),
    "stored_forward_kl": ("KL(initial || policy), stored answers", "nats a token"),
    "stored_reverse_kl": ("KL(policy || initial), stored answers", "nats a token"),
}
"""Metrics of each set that ``evaluate.every`` measures, as ``eval/<set>/<metric>``."""
_BY_NAME = {"eta_": "Weight of", "penalty_": "Penalty", "anchor_": "Anchor"}


def log_titles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Title and unit of what a log's columns are drawn as, in the order of the page."""
    found = dict(_TRAINING)
    for name in names:
        for start, title in _BY_NAME.items():
            if name.startswith(start):
                found[name] = (f"{title} {name.removeprefix(start).replace('_', ' ')}", "")
        if name.startswith("eval/") and not name.endswith(("_lo", "_hi")):
            set_name, of_a_set, metric = name.removeprefix("eval/").rpartition("/")
            if of_a_set and (known := _measured(metric)) is not None:  # eval/seconds_* is of all
                found[name] = (f"{known[0]}, {set_label(set_name)}", known[1])
        if name.startswith("outcome_") and name not in ("outcome_correct", "outcome_wrong"):
            found[name] = (f"Answers: {name.removeprefix('outcome_').replace('_', ' ')}", "%")
    return found


LOG_PARTS = ("Outcome", "Diversity", "Optimiser", "Store", "System")
_PARTS: Mapping[str, tuple[str, ...]] = {
    "Diversity": ("effective_styles", "entropy", "zero_variance", "style_"),
    "Optimiser": (
        *("policy_loss", "kl_penalty", "clipped_", "grad_norm", "learning_rate", "sampler_gap"),
        *("penalty_", "reverse_kl", "forward_kl"),
    ),
    "Store": ("divergence", "anchor_", "eta_", "stored_"),
    "System": ("seconds", "peak_memory", "tokens_", "rows_", "refills", "ungradable"),
}


def log_part(name: str) -> str:
    """The part of the page that a log's column is drawn in, one of ``LOG_PARTS``.

    >>> log_part("grad_norm"), log_part("eval/dev/pass_at_8"), log_part("eval/dev/entropy")
    ('Optimiser', 'Outcome', 'Diversity')
    """
    metric = name.rpartition("/")[2]
    return next((part for part, starts in _PARTS.items() if metric.startswith(starts)), "Outcome")


def _measured(metric: str) -> tuple[str, str] | None:
    """Title and unit of what was measured while a run trained; None: not drawn."""
    if metric in ("greedy", "mean", "effective_styles") or metric.startswith("pass_at_"):
        title = metric_title(metric)
        return title[:1].upper() + title[1:], "" if metric == "effective_styles" else "%"
    if metric.startswith("style_"):
        return f"Style {metric.removeprefix('style_')}", "%"
    return _MEASURED.get(metric)


# One look for each method, one fill for each style, in every picture and on the dark page.
#
# Methods: Okabe and Ito (2008), Color Universal Design, with two more from Tol's muted scheme.
# Fills: Tol's light scheme (2021, SRON/EPS/TN/09-002), made for black text on top.

RING = (
    "M-1.1,0A1.1,1.1,0,1,1,1.1,0A1.1,1.1,0,1,1,-1.1,0M-0.6,0A0.6,0.6,0,1,0,0.6,0"
    "A0.6,0.6,0,1,0,-0.6,0Z"
)
_CROSSED = (
    "M-1.1,-0.7L-0.7,-1.1L0,-0.4L0.7,-1.1L1.1,-0.7L0.4,0L1.1,0.7L0.7,1.1L0,0.4L-0.7,1.1"
    "L-1.1,0.7L-0.4,0Z"
)
_PENTAGON = "M0,-1.2L1.141,-0.371L0.705,0.971L-0.705,0.971L-1.141,-0.371Z"
_HEXAGON = "M0,-1.2L1.039,-0.6L1.039,0.6L0,1.2L-1.039,0.6L-1.039,-0.6Z"


class Look(NamedTuple):
    """Drawing of a method: its colour, and the shape of its markers as Vega has it."""

    colour: str
    shape: str

    @property
    def dash(self) -> tuple[int, ...]:
        """Lengths of the line's dashes and gaps in widths of the line; empty: it has none."""
        return (4, 2) if self.shape == RING else ()


def band_opacity(models: int) -> float:
    """Opacity of the bands of this many models: many would pile up."""
    return 0.12 if models <= 5 else 0.06


_FIXED: Mapping[str, Look] = MappingProxyType(
    {
        BASE: Look("#4D4D4D", RING),
        "grpo": Look("#D55E00", "square"),
        "dapo": Look("#E69F00", "triangle-down"),
        "rkl": Look("#CC79A7", "triangle-up"),
        "alpha": Look("#56B4E9", "cross"),
        "dph_f": Look("#0072B2", "circle"),
        "dph_js": Look("#009E73", "diamond"),
        "dph_js_definition": Look("#882255", _CROSSED),
    }
)
_SPARE = (
    Look("#CC79A7", "triangle-up"),
    Look("#999933", "triangle-left"),
    Look("#882255", _CROSSED),
    Look("#56B4E9", "cross"),
    Look("#E69F00", "triangle-down"),
    Look("#661100", "triangle-right"),
    Look("#44AA99", _PENTAGON),
    Look("#AA4466", _HEXAGON),
)
_FILLS = ("#77AADD", "#EE8866", "#EEDD88", "#44BB99", "#FFAABB", "#99DDFF", "#BBCC33", "#AAAA00")
_OTHER = "#DDDDDD"
MOST_STYLES = len(_FILLS)
"""Number of styles with a fill."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each method, no two of one colour; an unknown one takes the next that is free."""
    chosen_names = list(names)
    chosen = {name: _FIXED[name] for name in chosen_names if name in _FIXED}
    free = [look for look in _SPARE if look not in chosen.values()]
    others = [name for name in chosen_names if name not in chosen]
    chosen |= dict(zip(others, itertools.chain(free, _further()), strict=False))
    return {name: chosen[name] for name in chosen_names}


def _further() -> Iterator[Look]:
    """Any number of looks, no colour twice: hues a golden section apart, shapes in turn."""
    for i in itertools.count():
        hue = (0.1 + i * 0.6180339887498949) % 1
        red, green, blue = colorsys.hls_to_rgb(hue, (0.34, 0.46)[i % 2], 0.55)
        colour = "#" + "".join(f"{round(255 * part):02X}" for part in (red, green, blue))
        yield Look(colour, _SPARE[i % len(_SPARE)].shape)


def looks_by_method(methods: Mapping[str, str | None]) -> dict[str, Look]:
    """The look of each name: that of its method for the first name of a method.

    Those are chosen before the others, so that one run of each method is told apart best.
    """
    keys: dict[str, str] = {}
    for name, method in methods.items():
        keys[name] = name if method is None or method in keys.values() else method
    first = [key for name, key in keys.items() if key == methods[name]]
    chosen = looks(dict.fromkeys([*first, *keys.values()]))
    return {name: chosen[key] for name, key in keys.items()}


def fills(styles: Iterable[str]) -> dict[str, str]:
    """The fill of each style, in order; ``other`` is grey."""
    named = [style for style in styles if style != "other"]
    return {style: _FILLS[i % len(_FILLS)] for i, style in enumerate(named)} | {"other": _OTHER}


DARK = "#15171b"
"""The page's dark background (browser/style.css)."""
_ENOUGH = 3.0
"""Contrast of lines and marks against what is behind them (WCAG 2.2, criterion 1.4.11)."""


def on_dark(colour: str) -> str:
    """``colour`` mixed with as little white as it takes to be seen; greys are turned round.

    >>> on_dark("#E69F00"), on_dark("#4D4D4D")
    ('#E69F00', '#b2b2b2')
    """
    parts = _parts(colour)
    if len(set(parts)) == 1:
        return "#" + f"{255 - parts[0]:02x}" * 3
    for percent in range(100):
        mixed = "#" + "".join(f"{round(p + (255 - p) * percent / 100):02x}" for p in parts)
        if contrast(mixed, DARK) >= _ENOUGH:
            return mixed if percent else colour
    return "#ffffff"


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _luminance(colour: str) -> float:
    shares = (part / 255 for part in _parts(colour))
    linear = (x / 12.92 if x <= 0.04045 else float(((x + 0.055) / 1.055) ** 2.4) for x in shares)
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

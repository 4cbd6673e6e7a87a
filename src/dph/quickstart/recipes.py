"""The recipes that the quickstart compares: one world, one budget, one strength a method.

Strengths were chosen by one rule for every method, on seeds that are not reported
(benchmarks/quickstart_sweep.py; docs/quickstart-world.md says how), before the reported seeds
were run, and were not touched afterwards.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.quickstart.base_model import STEPS
from dph.quickstart.world import World, WorldSizes
from dph.settings import METHODS, Recipe, resolve_recipe

STRENGTHS = {
    "grpo": None,
    "dapo": None,
    "rkl": 0.03,
    "alpha": 1.0,
    "dph_f": 1.0,
    "dph_js": 1.0,
    "dph_js_definition": 1.0,
}
"""Weight of the term that a method adds: its anchor, or its penalty for rkl."""

MAX_TOKENS = 32

THREADS = 1
"""CPU threads of torch: the model is too small for more, and the weights depend on the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much work a quickstart is."""

    world: WorldSizes = field(default_factory=WorldSizes)
    base_steps: int = STEPS
    threshold: int = 7
    steps: int = 40
    problems_per_step: int = 32
    samples: int = 32
    checkpoint_every: int = 10


OPTIMIZERS: dict[str, dict[str, float]] = {
    "": {"learning_rate": 5e-4},
    "slow": {"learning_rate": 2e-4, "eps": 1e-5},
}
"""Settings of AdamW. ``slow`` makes a stronger baseline: see docs/quickstart-world.md."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A method, its strength and its optimizer, written ``method[@strength][+slow]``."""

    label: str
    method: str
    strength: float | None
    optimizer: str = ""


def parse_contender(label: str) -> Contender:
    """Read ``dph_f``, ``rkl@0.3`` or ``grpo+slow``.

    Raises:
        SettingsError: the method is unknown, takes no strength, or the strength is no number.
    """
    chosen, plus, optimizer = label.partition("+")
    method, at, text = chosen.partition("@")
    if method not in STRENGTHS:
        raise SettingsError(f"unknown method {method!r}; choose from {', '.join(METHODS)}")
    if plus and (not optimizer or optimizer not in OPTIMIZERS):
        raise SettingsError(f"unknown optimizer {optimizer!r} in {label!r}; there is +slow")
    if not at:
        return Contender(label, method, STRENGTHS[method], optimizer)
    if STRENGTHS[method] is None:
        raise SettingsError(f"{method} has no strength to set, got {label!r}")
    try:
        strength = float(text)
    except ValueError as error:
        raise SettingsError(f"a strength is a number, got {text!r} in {label!r}") from error
    if not 0 <= strength < float("inf"):
        raise SettingsError(f"a strength is at least 0 and finite, got {label!r}")
    return Contender(label, method, strength, optimizer)


def quickstart_recipe(
    contender: Contender, world: World, *, base_model: Path, pool: Path, seed: int, size: Size
) -> Recipe:
    """The recipe of one contender; everything but the method is the same for all."""
    sets = {
        name: {"path": str(world.problems_path(name))} for name in ("in_domain", "cross_domain")
    }
    arithmetic = {
        "path": str(world.problems_path("arithmetic")),
        "verifier": "number",
        "styles": "dph.quickstart.arithmetic:arithmetic_style",
    }
    return resolve_recipe(
        {
            "name": contender.label.replace("@", "_").replace("+", "_"),
            "method": contender.method,
            "seed": seed,
            "model": {
                "path": str(base_model),
                "threads": THREADS,
                "device": "cpu",
                "attention": "eager",
            },
            "data": {
                "train": str(world.problems_path("train")),
                "sets": {**sets, "arithmetic": arithmetic},
                "verifier": "sql",
                "styles": "sql",
                "databases": str(world.databases_directory),
            },
            "sampling": {"max_tokens": MAX_TOKENS},
            "presample": {"samples": 8, "threshold": size.threshold, "pool": str(pool)},
            "objective": _weighed(contender),
            "train": {
                "steps": size.steps,
                "problems_per_step": size.problems_per_step,
                "samples_per_problem": 8,
                "rehearsal_per_step": size.problems_per_step,
                **OPTIMIZERS[contender.optimizer],
                "microbatch_tokens": 2048,
                "checkpoint_every": size.checkpoint_every,
            },
            "evaluate": {
                "seed": seed,
                "samples": size.samples,
                "k": [k for k in (1, 2, 4, 8, 16, 32) if k <= size.samples],
            },
        }
    )


def _weighed(contender: Contender) -> dict[str, Any]:
    """The weight of the one term that the method adds."""
    if contender.strength is None:
        return {}
    terms, name = ("penalties", "kl") if contender.method == "rkl" else ("anchors", "rehearsal")
    return {terms: {name: {"weight": contender.strength}}}

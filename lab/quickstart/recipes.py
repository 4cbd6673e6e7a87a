"""The recipes that a quickstart compares: one world, one budget, one strength a method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError
from dph.recipe import METHODS, STRENGTHS, Recipe, merged, resolve_recipe
from dph.recipe.keys import nested
from dph.recipe.samples import store_named
from dph.recipe.stores import FROM_FILE
from lab.worlds import UNLABELLED, World, WorldKind, newest_edition, world_kind

# What a world gives to methods that learn from its unlabelled prompts.


def world_tables(kind: WorldKind, world: World, method: str, stores: Path) -> dict[str, Any]:
    """A world's settings in the recipe of ``method``; stores that runs share lie in ``stores``."""
    own = unlabelled_tables(
        method,
        world.problems_path(UNLABELLED),
        stores,
        only=kind.unlabelled,
        overlaps=kind.overlaps,
    )
    return merged(merged(kind.settings(world), kind.methods.get(method, {})), own)


def unlabelled_tables(
    method: str,
    file: Path,
    stores: Path,
    *,
    only: Mapping[str, Any] = MappingProxyType({}),
    overlaps: Sequence[str] = (),
) -> dict[str, Any]:
    """The tables of a recipe that say where the prompts of ``method`` are; none if it needs none.

    Args:
        method: a named method.
        file: the world's unlabelled prompts.
        stores: where the stores lie that all methods share.
        only: which of the prompts, by columns of the file [default: all].
        overlaps: evaluation sets whose prompts may be among them.
    """
    table = METHODS[method]
    prompts: dict[str, Any] = {"file": str(file)}
    prompts |= {"only": dict(only)} if only else {}
    prompts |= {"allow_overlap": list(overlaps)} if overlaps else {}
    found: dict[str, Any] = {}
    for name, store in table.get("stores", {}).items():
        # What a trained policy answers is no other run's business.
        own_answers = store_named(table.get("consolidation", {}).get("samples")) == name
        place = {} if own_answers else {"place": str(stores / name)}
        own = prompts if store.get("prompts", "unlabelled") in FROM_FILE else {}
        found.setdefault("stores", {})[name] = place | own
    if table.get("self_consistency", {}).get("reward") == "majority":
        found["self_consistency"] = prompts
    return found


THREADS = 1
"""CPU threads of torch: the model is too small for more, and the weights depend on the number."""

WORKERS = 2
"""Processes that grade; they decide nothing but time."""
ROWS_AT_ONCE = 1024
"""Answers that are decoded side by side where a world does not say; it decides nothing but time and
memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a quickstart; None leaves it to the world."""

    world: Any = None
    base_steps: int | None = None
    threshold: int | None = None
    steps: int = 40
    problems_per_step: int = 32
    samples: int = 16
    checkpoint_every: int = 10


def tiny_size(task: str, edition: int | None = None) -> Size:
    """So little work that a quickstart ends soon; what it measures means nothing.

    Raises:
        SettingsError: there is no such task or edition, or none so small of it.
    """
    kind = world_kind(task, edition)
    if kind.tiny is None:
        raise SettingsError(
            f"there is no tiny quickstart of the task {task!r}, edition "
            f"{edition or newest_edition(task)}; choose another task, such as sql or real"
        )
    return Size(
        world=kind.tiny,
        base_steps=kind.tiny_steps,
        threshold=4,
        steps=4,
        problems_per_step=4,
        samples=16,
        checkpoint_every=2,
    )


OPTIMIZERS: dict[str, dict[str, float]] = {
    "": {},
    "slow": {"learning_rate": 2e-4, "eps": 1e-5},
    "fast": {"learning_rate": 5e-4, "eps": 1e-8},
}
"""Settings of AdamW: the world's own, or by name (docs/quickstart-world.md)."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A method, its strength and its optimizer, written ``method[@strength][+optimizer]``."""

    label: str
    method: str
    strength: float | None
    optimizer: str = ""


def parse_contender(label: str, strengths: Mapping[str, float | None] | None = None) -> Contender:
    """Read ``dph_f``, ``rkl@0.3`` or ``grpo+slow``.

    ``strengths`` are those of methods that name none [default: of the newest text-to-SQL world].

    Raises:
        SettingsError: the method is unknown, takes no strength, or the strength is no number.
    """
    usual = world_kind("sql").strengths if strengths is None else strengths
    chosen, plus, optimizer = label.partition("+")
    method, at, text = chosen.partition("@")
    if method not in METHODS:
        raise SettingsError(f"unknown method {method!r}; choose from {', '.join(METHODS)}")
    if plus and (not optimizer or optimizer not in OPTIMIZERS):
        raise SettingsError(f"unknown optimizer {optimizer!r} in {label!r}; choose +slow or +fast")
    if not at:
        return Contender(label, method, usual.get(method), optimizer)
    if STRENGTHS[method] is None:
        raise SettingsError(f"{method} has no strength to set, got {label!r}")
    try:
        strength = float(text)
    except ValueError as error:
        raise SettingsError(f"a strength is a number, got {text!r} in {label!r}") from error
    if not 0 <= strength < float("inf"):
        raise SettingsError(f"a strength is at least 0 and finite, got {label!r}")
    return Contender(label, method, strength, optimizer)


def run_name(label: str) -> str:
    """Name of the run of a contender, and of its directory.

    >>> run_name("rkl@0.3+slow")
    'rkl_0.3_slow'
    """
    return label.replace("@", "_").replace("+", "_")


def quickstart_recipe(
    contender: Contender,
    world: Mapping[str, Mapping[str, Any]],
    *,
    base_model: Path,
    pool: Path,
    seed: int,
    size: Size,
    settings: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe of one contender; everything but the method is the same for all.

    ``world`` are the tables that belong to the world (``WorldKind.settings``); ``settings`` are
    tables that win over all others.
    """
    presample: dict[str, Any] = {"pool": str(pool)}
    if size.threshold is not None:
        presample["threshold"] = size.threshold
    table: dict[str, Any] = {
        "name": run_name(contender.label),
        "method": contender.method,
        "seed": seed,
        "model": {
            "path": str(base_model),
            "threads": THREADS,
            "device": "cpu",
            "attention": "eager",
        },
        "presample": presample,
        "data": {"verifier_workers": WORKERS},
        "train": {
            "steps": size.steps,
            # 0: the method learns from stored answers alone.
            "problems_per_step": size.problems_per_step if _draws(contender.method) else 0,
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
    usual = {"sampling": {"max_rows": ROWS_AT_ONCE, "cache_tokens": ROWS_AT_ONCE * 1024}}
    chosen = merged(merged(merged(usual, world), table), strength_table(contender))
    return resolve_recipe(merged(chosen, settings or {}))


def _draws(method: str) -> bool:
    return bool(METHODS[method].get("train", {}).get("problems_per_step", True))


def strength_table(contender: Contender) -> dict[str, Any]:
    """The one setting that says how strong the contender's method is, as a recipe has it."""
    key = STRENGTHS[contender.method]
    if key is None or contender.strength is None:
        return {}
    return nested({key: contender.strength})

"""The real world as kinds: one for each task, known without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from lab.worlds.real.tasks import TASKS
from lab.worlds.world import ByPath, World, WorldKind, require_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSizes:
    """Number of problems in each set; ``unlabelled`` is that of each of its two parts.

    ``shots`` are the solved examples before every question.
    """

    train: int = 300
    in_domain: int = 100
    cross_domain: int = 100
    unlabelled: int = 48
    shots: int = 4

    def __post_init__(self) -> None:
        require_sizes(self)


TINY = RealSizes(train=16, in_domain=4, cross_domain=4, unlabelled=4)
BASE_STEPS = 1
"""Nothing is trained: the base model is the language model as it is."""
SETS = ("in_domain", "cross_domain")
OPTIMIZER: Mapping[str, float] = MappingProxyType({"learning_rate": 5e-6})
"""At 2e-5 GRPO's reward goes up and down, and it forgets the sister task (docs/real-world.md)."""
THRESHOLD = 4
"""Of 8 samples of pre-sampling: at temperature 1 hardly a question is answered right more often (of
48 sums none was more than five times, and five at least four times)."""
AT_ONCE = 64
"""Answers that are decoded side by side: what is kept for a token takes 46 KB."""
BUDGET: Mapping[str, int] = MappingProxyType(
    {"steps": 40, "problems_per_step": 8, "samples": 16, "checkpoint_every": 20}
)


def real_settings(world: World, *, task: str) -> dict[str, dict[str, Any]]:
    """Tables ``data`` with the examples, ``sampling``, ``presample`` and ``train``."""
    chosen = TASKS[task]
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in SETS},
            "verifier": chosen.verifier,
            "shots": {
                "file": str(world.problems_path("shots")),
                "template": chosen.template,
                "answer": "shown",
            },
        },
        "sampling": {
            "max_tokens": chosen.max_tokens,
            "stop": ["\n"],
            "max_rows": AT_ONCE,
            "cache_tokens": AT_ONCE * 1024,
        },
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(OPTIMIZER),
        **({"self_consistency": {"agreement": chosen.agreement}} if chosen.agreement else {}),
    }


def real_kind(task: str) -> WorldKind:
    """The world of one task.

    Raises:
        KeyError: there is no such task.
    """
    return WorldKind(
        summary=TASKS[task].summary,
        sets=SETS,
        optimizer=OPTIMIZER,
        base_steps=BASE_STEPS,
        sizes=RealSizes,
        build=partial(ByPath("lab.worlds.real.world:build_world"), task=task),
        train_base_model=ByPath("lab.worlds.real.base_model:link_base_model"),
        settings=partial(real_settings, task=task),
        tiny=TINY,
        tiny_steps=BASE_STEPS,
        budget=BUDGET,
        require=ByPath("lab.worlds.real.base_model:require_model"),
    )


REAL: Mapping[str, WorldKind] = MappingProxyType(
    {
        "real": real_kind("sums"),
        **{f"real-{task}": real_kind(task) for task in TASKS if task != "sums"},
    }
)
"""By task: ``real`` is that of the sums."""

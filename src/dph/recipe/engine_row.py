"""Treatment of a recipe's settings in another engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

Kind = Literal["engine", "package", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Target of a setting, and the values that the engine does not support.

    ``engine``: it becomes the engine's own ``key``. ``package``: this package reads it, before,
    around or after the engine's training; ``key`` says where. ``other``: it belongs to an engine
    that does not run. Values are as in JSON. With ``only`` no other value is allowed, with
    ``never`` any but these; ``why`` ends the sentence that refuses one.
    """

    kind: Kind
    key: str
    only: tuple[Any, ...] | None = None
    never: tuple[Any, ...] = ()
    why: str = ""

    def refuses(self, value: Any) -> bool:
        """Whether the engine cannot have ``value``."""
        return value in self.never or (self.only is not None and value not in self.only)


def to(
    key: str,
    *,
    only: tuple[Any, ...] | None = None,
    never: tuple[Any, ...] = (),
    why: str = "",
) -> Row:
    """A setting that becomes the engine's ``key``."""
    return Row(kind="engine", key=key, only=only, never=never, why=why)


def ours(where: str, *, only: tuple[Any, ...] | None = None, why: str = "") -> Row:
    """A setting that this package reads in ``where``."""
    return Row(kind="package", key=where, only=only, why=why)


def others(engine: str) -> Row:
    """A setting of another engine."""
    return Row(kind="other", key=engine)


def under(key: str) -> Row:
    """A setting that matters only where ``key``, which has its own row, switches it on."""
    return Row(kind="package", key=f"with {key}")


# Settings that mean the same whichever other engine trains: this package reads them itself.

_EVALUATION, _POOL, _STORES = ("the evaluation stage", "pre-sampling", "stores of distributions")
_OWN = "`--engine own` does"
_NOT_KEPT = f"the engine's answers of training are not kept; {_OWN}"
_NO_ADAPTERS = f"the engine is given whole weights; {_OWN} train adapters"
_ALONE = "consolidation, on one device"

SHARED_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "name": ours("the run's directory"),
        "method": ours("the recipe's own expansion"),
        "notes": ours("recipe.toml"),
        "model.weights": ours(
            "loading",
            only=("float32",),
            why=f"the engine trains float32 weights; {_OWN} train bfloat16",
        ),
        "model.adapter.kind": ours("loading", only=(), why=_NO_ADAPTERS),
        **{
            f"model.adapter.{name}": under("model.adapter.kind")
            for name in ("rank", "alpha", "targets", "init")
        },
        "model.threads": ours("the stages of this process"),
        **{
            f"data.sets.*.{name}": ours(_EVALUATION)
            for name in ("path", "columns", "verifier", "styles")
        },
        "data.verifier_crash_limit": ours(
            "pre-sampling and evaluation",
            only=(0.5, 1.0),
            why=f"a crash while it trains removes one answer and does not end the run; {_OWN} "
            f"count them",
        ),
        "data.styles": ours(_EVALUATION),
        **{f"sampling.{name}": ours(_EVALUATION) for name in ("max_rows", "cache_tokens")},
        "sampling.cuda_graphs": ours(_EVALUATION),
        **{
            f"stores.*.{name}": ours(_STORES)
            for name in ("file", "only", "novel", "allow_overlap", "agreement", "prompts")
        },
        **{f"stores.*.{name}": ours(_STORES) for name in ("limit", "answers", "top", "seed")},
        "objective.anchors.*.recent": ours(
            "the objective",
            only=(None,),
            why=f"it rehearses stored answers, not recent ones; {_OWN} keep those",
        ),
        "objective.anchors.*.recent_capacity": under("objective.anchors.*.recent"),
        "objective.anchors.*.target": ours(
            "the objective",
            only=(None,),
            why=f"its weights of anchors are fixed; {_OWN} adapt them",
        ),
        **{
            f"objective.anchors.*.{name}": under("objective.anchors.*.target")
            for name in ("target_rate", "weight_min", "weight_max")
        },
        "self_consistency.problems_per_step": ours(
            "the objective",
            only=(0,),
            why=f"it learns from labelled problems; {_OWN} learn without",
        ),
        **{
            f"self_consistency.{name}": under("self_consistency.problems_per_step")
            for name in ("file", "only", "novel", "allow_overlap", "agreement", "reward", "store")
        },
        "train.engine": ours("the choice of the engine"),
        "train.shared_prompts": ours(
            "training", only=("auto",), why=f"it computes rows in its own way; {_OWN} share prompts"
        ),
        "train.keep_samples": ours("training", only=(4, "none"), why=_NOT_KEPT),
        "train.keep_samples_mb": under("train.keep_samples"),
        **{
            f"consolidation.{name}": ours(_ALONE)
            for name in ("updates", "store", "rows", "rate", "final_rate", "checkpoint_every")
        },
        **{
            f"evaluate.{name}": ours(_EVALUATION)
            for name in ("samples", "k", "temperature", "top_p", "max_tokens", "retention_k")
        },
        **{f"evaluate.{name}": ours(_EVALUATION) for name in ("seed", "token_details")},
        "evaluate.every": ours(
            "training",
            only=(0,),
            why=f"this package evaluates before and after it; {_OWN} evaluate in between too",
        ),
        "evaluate.keep_best": under("evaluate.every"),
        "evaluate.result": under("evaluate.every"),
        **{
            f"evaluate.during.{name}": under("evaluate.every")
            for name in ("samples", "k", "sets", "problems", "greedy", "compared")
        },
        "track.to": ours("metrics.jsonl and the files next to it"),
        "track.project": ours("metrics.jsonl and the files next to it"),
        "track.answers": ours(_EVALUATION),
    }
)

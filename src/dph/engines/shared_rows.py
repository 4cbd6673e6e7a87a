"""The rows of an engine's table of settings, and those that all other engines share."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from dph.recipe.advantages import ADVANTAGES
from dph.recipe.engines import Row
from dph.recipe.schema import EnvironmentSettings
from dph.recipe.terms import READ_IN_OWN_LOOP

_OWN = "`--engine own` does"


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


def advantage_rows(key: str, *, title: str) -> dict[str, Row]:
    """The rows of ``[objective.advantage]`` in an engine that tells of new samples alone.

    Advantages that read more are refused, and so their parameters never matter.
    """
    chosen = "objective.advantage.kind"
    refused = [name for name, term in ADVANTAGES.items() if term.reads & READ_IN_OWN_LOOP.keys()]
    taken = _parameters_of(name for name in ADVANTAGES if name not in refused)
    why = (
        "it reads the initial policy's right answers, or its log-probs of new samples, "
        f"which {title}'s rows do not say; {_OWN}"
    )
    return {
        chosen: to(key, never=tuple(refused), why=why),
        **{
            f"objective.advantage.{name}": to(key) if name in taken else under(chosen)
            for name in _parameters_of(ADVANTAGES)
        },
    }


def _parameters_of(advantages: Iterable[str]) -> list[str]:
    found = (name for one in advantages for name in ADVANTAGES[one].parameters.model_fields)
    return list(dict.fromkeys(found))


def samples_row(key: str) -> Row:
    """The row of an anchor's ``samples``: the engine reads pools and stores."""
    why = f"it rehearses stored answers, not recent ones; {_OWN} keep those"
    return to(key, never=("recent:*",), why=why)


# Settings that mean the same whichever other engine trains: this package reads them itself.

_EVALUATION, _STORES = "the evaluation stage", "stores of distributions"
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
        **{
            f"stores.*.{name}": ours(_STORES)
            for name in ("file", "only", "novel", "allow_overlap", "agreement", "prompts")
        },
        **{f"stores.*.{name}": ours(_STORES) for name in ("limit", "answers", "top", "seed")},
        "objective.anchors.*.recent_capacity": under("objective.anchors.*.samples"),
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
            for name in ("file", "only", "novel", "allow_overlap", "agreement", "reward", "samples")
        },
        **{
            f"environment.{name}": under("environment.path")
            for name in EnvironmentSettings.model_fields
            if name != "path"
        },
        "train.engine": ours("the choice of the engine"),
        "train.shared_prompts": ours(
            "training", only=("auto",), why=f"it computes rows in its own way; {_OWN} share prompts"
        ),
        "train.keep_samples": ours("training", only=(4, "none"), why=_NOT_KEPT),
        "train.keep_samples_mb": under("train.keep_samples"),
        **{
            f"consolidation.{name}": ours(_ALONE)
            for name in ("updates", "samples", "rows", "rate", "final_rate", "checkpoint_every")
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

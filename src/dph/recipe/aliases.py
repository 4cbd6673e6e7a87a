"""Other names of settings: those of other packages, short ones, and those of older recipes.

A name of another package is refused with our key for it; a short name stands for one key of a term;
a setting that left the package is dropped if it says "off", and refused otherwise.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph.errors import DataError, SettingsError
from dph.recipe.section import flat

_ELSEWHERE = {
    "train.learning_rate": "lr",
    "train.problems_per_step": "batch_size train_batch_size",
    "train.samples_per_problem": "num_generations group_size rollout_n n",
    "train.steps": "max_steps num_steps total_training_steps",
    "train.epochs": "num_iterations num_train_epochs ppo_epochs",
    "train.minibatches": "num_mini_batches",
    "train.warmup_steps": "warmup lr_warmup_steps",
    "train.weight_decay": "wd",
    "train.eps": "adam_epsilon adam_eps",
    "train.betas": "adam_betas",
    "train.max_grad_norm": "grad_clip gradient_clip clip_grad",
    "train.checkpoint_every": "save_steps save_freq",
    "train.keep_checkpoints": "save_total_limit",
    "evaluate.every": "eval_steps test_freq eval_every",
    "evaluate.keep_best": "metric_for_best_model",
    "evaluate.result": "load_best_model_at_end",
    "objective.kl_coefficient": "beta kl_beta kl_coef kl_loss_coef kl_weight",
    "objective.kl_estimator": "kl_type kl_loss_type",
    "objective.clip_low": "epsilon epsilon_low clip_ratio clip_ratio_low cliprange",
    "objective.clip_high": "epsilon_high clip_ratio_high",
    "objective.reduction": "loss_type loss_agg_mode",
    "objective.advantage_scale": "scale_rewards",
    "objective.overlong_filter": "mask_truncated_completions",
    "sampling.temperature": "temp",
    "sampling.max_tokens": "max_new_tokens max_completion_length max_response_length",
    "sampling.stop": "stop_strings",
    "model.path": "model_name_or_path model_name",
    "model.dtype": "torch_dtype",
    "model.attention": "attn_implementation",
    "data.train": "dataset train_files train_path",
    "data.verifier": "reward_fn reward_func reward_funcs reward_function grader",
    "data.verifier_timeout": "timeout",
    "data.verifier_workers": "workers",
    "presample.samples": "num_samples",
    "track.to": "report_to",
    "track.project": "project_name",
}
NAMES_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {name: own for own, names in _ELSEWHERE.items() for name in names.split()}
)
"""The last part of a key as TRL, verl and others write it, and our key for it."""


def meant_key(key: str, known: Collection[str]) -> str | None:
    """Our name of the setting that other packages call ``key``, in the same section if it is there.

    >>> meant_key("train.lr", ["train.eps", "train.learning_rate"])
    'train.learning_rate'
    """
    section, _, name = key.rpartition(".")
    meant = NAMES_ELSEWHERE.get(name.lower().replace("-", "_"))
    if meant is None:
        return None
    nearby = f"{section}.{meant.rpartition('.')[2]}"
    return nearby if nearby in known else meant


# Short names for what most methods have: one KL penalty, one divergence on stored answers.
#
# eta = 0.3 stands for [objective.anchors.rehearsal] weight = 0.3
#
# They are the names of the papers, and all engines take them, because all read the same section.

REHEARSAL, KL = "rehearsal", "kl"
"""The names of the anchor and of the penalty that have short names."""

SHORTHAND: dict[str, tuple[str, ...]] = {
    "advantage_scale": ("advantage", "scale"),
    "clip_low": ("surrogate", "clip_low"),
    "clip_high": ("surrogate", "clip_high"),
    "kl_coefficient": ("penalties", KL, "weight"),
    "kl_estimator": ("penalties", KL, "estimator"),
    "eta": ("anchors", REHEARSAL, "weight"),
    "divergence": ("anchors", REHEARSAL, "divergence"),
    "js_definition": ("anchors", REHEARSAL, "divergence"),
    "alpha": ("anchors", REHEARSAL, "alpha"),
    "forward_kl_form": ("anchors", REHEARSAL, "form"),
}
"""Meaning of each short name."""

_PARAMETER_OF = {"alpha": "alpha", "forward_kl_form": "forward_kl"}
"""Short names that only one divergence has; with another one they have no effect."""


def expand_shorthand(objective: Mapping[str, Any]) -> dict[str, Any]:
    """``[objective]`` with every short name in the place that it stands for."""
    expanded = {name: value for name, value in objective.items() if name not in SHORTHAND}
    short = {name: objective[name] for name in SHORTHAND if name in objective}
    for name, value in _in_effect(short).items():
        _put(expanded, SHORTHAND[name], value, name)
    return expanded


def _in_effect(short: dict[str, Any]) -> dict[str, Any]:
    """Short names with an effect here; the definition form becomes a separate divergence."""
    if short.get("js_definition"):
        if short.get("divergence", "jensen_shannon") != "jensen_shannon":
            raise ValueError(
                f"js_definition needs divergence='jensen_shannon', got {short['divergence']!r}"
            )
        short.pop("divergence", None)
        short["js_definition"] = "jensen_shannon_definition"
    else:
        short.pop("js_definition", None)
    chosen = short.get("divergence", short.get("js_definition"))
    if chosen == "none":
        if short.get("eta"):
            raise ValueError(f"eta={short['eta']} needs a divergence, got divergence='none'")
        short |= {"divergence": "forward_kl", "eta": 0.0}  # there, and off
    if chosen is None or chosen is False:
        return short
    return {name: v for name, v in short.items() if _PARAMETER_OF.get(name, chosen) == chosen}


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any, name: str) -> None:
    *parents, last = path
    for parent in parents:
        inside = table.get(parent, {})
        if not isinstance(inside, Mapping):
            raise ValueError(f"{parent} is a table of settings, got {inside!r}")
        table[parent] = dict(inside)
        table = table[parent]
    if last in table and table[last] != value:
        raise ValueError(
            f"{name}={value!r} is short for {'.'.join(path)}, but that is {table[last]!r}"
        )
    table[last] = value


LEFT = (
    "{} left this package with label-free learning from stored answers; commit d3c0d2a0 is the "
    "last one that reads it"
)
"""The refusal of a method, a table or a directory of label-free learning; takes its name."""
RIVAL_LEFT = (
    "{} left this package with methods that need a buffer, counts of the pool, a choice among the "
    "tokens of a mini-batch or a weight that adapts; commit 8d7e0dec is the last one that reads it"
)
"""The refusal of such a method, term or setting; takes its name."""
TRL_LEFT = (
    "{} is not an engine of recipes: train in your own script with dph.engines.trl.DPHTrainer "
    "(docs/tutorials/trl.md)"
)
"""The refusal of TRL as an engine; takes the setting."""
_METHODS = {
    **dict.fromkeys(("dph_broad", "consolidation", "consensus", "lmsi", "rft"), LEFT),
    **dict.fromkeys(("alpha_dpg", "bbg", "clip_cov", "dyjr", "kl_cov"), RIVAL_LEFT),
}
_OFF: Mapping[str, Mapping[str, Any]] = {
    "consolidation": {"updates": 0},
    "stores": {},
    "trl": {"processes": 1},
}
"""Tables that every recipe of a run had until commit d3c0d2a0, with the values that say "off"."""
_OF_ANCHORS = {"target_rate": 0.2, "weight_min": 0.01, "weight_max": 10.0}
"""Settings of every anchor until commit 8d7e0dec, with the values that say "off"."""
_ANCHOR = r"objective\.anchors\.[^.]+"
_DROPPED = re.compile(
    rf"{'|'.join(_OFF)}|self_consistency\.reward|sampling\.cuda_graphs|"
    rf"{_ANCHOR}\.({'|'.join(_OF_ANCHORS)})"
)
"""Keys of recipes of older runs; all that is not refused says "off"."""


def _any_but(off: Any) -> Callable[[Any], bool]:
    return lambda value: bool(value != off)


_REFUSED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (rf"{_ANCHOR}\.divergence", lambda value: value == "distribution_kl", LEFT),
    (rf"{_ANCHOR}\.samples", lambda value: str(value).startswith("store:"), LEFT),
    (r"self_consistency\.reward", _any_but("majority"), LEFT),
    (r"self_consistency\.samples", lambda _: True, LEFT),
    (rf"{_ANCHOR}\.samples", lambda value: str(value).startswith("recent:"), RIVAL_LEFT),
    (rf"{_ANCHOR}\.(target|recent_capacity)", lambda _: True, RIVAL_LEFT),
    *((rf"{_ANCHOR}\.{name}", _any_but(off), RIVAL_LEFT) for name, off in _OF_ANCHORS.items()),
    (r"objective\.advantage\.kind", lambda value: value in ("alpha_dpg", "bbg"), RIVAL_LEFT),
    (r"objective\.surrogate\.kind", lambda value: value == "clip_cov", RIVAL_LEFT),
    (r"objective\.penalties\.[^.]+\.kind", lambda value: value == "kl_cov", RIVAL_LEFT),
)
"""Keys, the values of them that left, and the refusal."""


def refuse_stores(run: Path) -> None:
    """Refuse the directory of a run that has stores or a consolidation."""
    for name in ("stores", "consolidation"):
        if (run / name).is_dir():
            raise DataError(LEFT.format(f"the directory {run / name}"))


def without_departed(table: Mapping[str, Any]) -> dict[str, Any]:
    """``table`` without settings that left the package."""
    if refused := list(_departed(table)):
        raise SettingsError("; ".join(refused))
    return _without_dropped(table, "")


def _without_dropped(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name: _without_dropped(value, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in table.items()
        if not _DROPPED.fullmatch(f"{prefix}{name}")
    }


def _departed(table: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(method := table.get("method"), str) and method in _METHODS:
        yield _METHODS[method].format(f"method = {method!r}")
    for name, off in _OFF.items():
        inside = table.get(name, off)
        if not isinstance(inside, Mapping) or any(inside.get(k, ...) != off[k] for k in off):
            yield (TRL_LEFT if name == "trl" else LEFT).format(f"[{name}]")
    for name in table["stores"] if isinstance(table.get("stores"), Mapping) else ():
        yield LEFT.format(f"[stores.{name}]")
    for key, value in flat(table):
        for pattern, left, refusal in _REFUSED:
            if re.fullmatch(pattern, key) and left(value):
                yield refusal.format(f"{key} = {value!r}")
    if isinstance(train := table.get("train"), Mapping) and train.get("engine") == "trl":
        yield TRL_LEFT.format("train.engine = 'trl'")

"""The keys that a recipe may have, and what becomes of others.

A name of another package is refused with our key for it. A setting that left this package is
dropped if it says "off", and refused otherwise.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import ne
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.import_path import is_import_path
from dph.errors import DataError, SettingsError
from dph.recipe.data import SetSettings
from dph.recipe.objective import (
    SHORTHAND,
    AdvantageSettings,
    AnchorSettings,
    PenaltySettings,
    SurrogateSettings,
    TermSettings,
)
from dph.recipe.schema import Recipe
from dph.recipe.section import Section, flat, section_in

NAMED_TABLES: Mapping[str, type[Section]] = MappingProxyType(
    {
        "data.sets": SetSettings,
        "objective.penalties": PenaltySettings,
        "objective.anchors": AnchorSettings,
    }
)
"""Settings that are tables by a name of the user's choice."""
SELECTORS = ("kind", "divergence")
USUAL_KINDS = [
    section.model_fields["kind"].default
    for section in (AdvantageSettings, SurrogateSettings, PenaltySettings)
]
"""Kind of a term whose table does not say it."""
FIELDS_OF_ALL_TERMS = {*PenaltySettings.model_fields, *AnchorSettings.model_fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One dotted key, with its value if there is a recipe."""

    name: str
    meaning: str
    required: bool = False
    default: Any
    has_value: bool
    value: Any

    @property
    def differs(self) -> bool:
        return self.has_value and (self.required or self.value != self.default)

    def as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"meaning": self.meaning, "required": self.required}
        if not self.required:
            content["default"] = self.default
        if self.has_value:
            content |= {"value": self.value, "differs": self.differs}
        return content

    def line(self) -> str:
        default = "required" if self.required else f"default {_plain(self.default)}"
        if not self.has_value:
            return f"{self.name} ({default})\n      {self.meaning}"
        mark, aside = ("*", f"  ({default})") if self.differs else (" ", "")
        return f"{mark} {self.name} = {_plain(self.value)}{aside}\n      {self.meaning}"


def _plain(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


def keys_of(recipe: Recipe | None) -> Iterator[Key]:
    """Every key of a recipe; without one all that there are, ``*`` for a name of your choice."""
    yield from _keys(Recipe, "", None if recipe is None else recipe.model_dump(mode="json"))


def known_keys() -> dict[str, str]:
    """The meaning of every dotted key; ``*`` stands for a name of the user's choice."""
    return {key.name: key.meaning for key in keys_of(None)}


def _keys(section: type[Section], prefix: str, values: dict[str, Any] | None) -> Iterator[Key]:
    known = values is not None
    for name, field in section.model_fields.items():
        below = section_in(field.annotation)
        inside = None if values is None else values[name]
        if prefix + name in NAMED_TABLES:
            for own in ["*"] if inside is None else inside:
                content = None if inside is None else inside[own]
                yield from _keys(NAMED_TABLES[prefix + name], f"{prefix}{name}.{own}.", content)
        elif below is not None and (not known or inside is not None):
            yield from _keys(below, f"{prefix}{name}.", inside)
        else:
            required = field.is_required()
            default = None if required else field.default
            yield Key(
                name=f"{prefix}{name}",
                meaning=field.description or "",
                required=required,
                default=list(default) if isinstance(default, tuple) else default,
                has_value=known,
                value=inside,
            )
    if not issubclass(section, TermSettings):
        return
    # Parameters of the chosen term, or of all that can be chosen.
    chosen = None if values is None else values[section.selector]
    parameters = term_parameters(section, chosen)
    own = parameters if values is None else [n for n in values if n not in section.model_fields]
    for name in own:
        meaning, default = parameters.get(name, (f"of {chosen}", None))
        yield Key(
            name=f"{prefix}{name}",
            meaning=meaning,
            default=default,
            has_value=known,
            value=None if values is None else values[name],
        )


def term_parameters(
    section: type[TermSettings], chosen: str | None = None
) -> dict[str, tuple[str, Any]]:
    """Meaning and default of every parameter that ``chosen`` takes, or that any term takes.

    Where terms share a name, the default is that of the first, and the meaning tells the others.
    """
    of_terms = {
        term: row.parameters.model_fields
        for term, row in section.table.items()
        if chosen in (None, term)
    }
    found: dict[str, tuple[str, Any]] = {}
    for name in dict.fromkeys(name for own in of_terms.values() for name in own):
        fields = {term: own[name] for term, own in of_terms.items() if name in own}
        first = next(iter(fields.values())).default
        meanings: dict[str, list[str]] = {}
        for term, field in fields.items():
            other = "" if field.default == first else f" (default {field.default})"
            meanings.setdefault(f"{field.description}{other}", []).append(term)
        said = [f"{what} ({section.selector} {', '.join(of)})" for what, of in meanings.items()]
        found[name] = ("; ".join(said), first)
    return found


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


def refuse_unknown_keys(table: Mapping[str, Any]) -> None:
    """Refuse keys that no setting has, all at once, and name the nearest one of each."""
    known, refused = known_keys(), []
    taken = [*known, *(f"objective.{name}" for name in SHORTHAND)]
    sections = {key.rsplit(".", 1)[0] for key in known if "." in key}
    for key, value in flat(table):
        pattern = pattern_of(key)
        if pattern in known or _is_own_parameter(table, key):
            continue
        if value is None and pattern in sections:
            continue  # a table that is left out, as records are dumped
        if pattern in sections or pattern in NAMED_TABLES:
            refused.append(f"{key} is a table of settings, got {value!r}")
            continue
        meant = meant_key(key, taken)
        near = [meant] if meant else difflib.get_close_matches(pattern, taken, n=1)
        near = near or [k for k in known if k.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]]
        hint = f"; did you mean {near[0]}?" if near else "; `dph recipe show` lists the known ones"
        refused.append(f"unknown setting {key}{hint}")
    if refused:
        raise SettingsError("; ".join(refused))


def pattern_of(key: str) -> str:
    """``data.sets.dev.path`` -> ``data.sets.*.path``; a bare path is the same key.

    So is a column of ``only``, a field of ``columns`` and a variable of ``template``, whose names
    are anyone's: ``self_consistency.only.part`` -> ``self_consistency.only``.
    """
    parts = key.split(".")
    named = next((n for n in (parts[0], ".".join(parts[:2])) if n in NAMED_TABLES), None)
    if named is not None and len(parts) > (depth := named.count(".") + 1):
        rest = parts[depth + 1 :] or (["path"] if named == "data.sets" else [])
        parts = [named, "*", *rest]
    if len(parts) > 2 and parts[-2] in ("only", "columns", "template"):
        parts = parts[:-1]
    return ".".join(parts)


def _is_own_parameter(table: Mapping[str, Any], key: str) -> bool:
    """True if ``key`` belongs to a term that the user brought: its parameters are its own."""
    *parents, _ = key.split(".")
    section: Any = table
    for parent in parents:
        section = section.get(parent, {}) if isinstance(section, Mapping) else {}
    chosen = [section.get(name) for name in SELECTORS] if isinstance(section, Mapping) else []
    return key.startswith("objective.") and any(
        isinstance(name, str) and is_import_path(name) for name in chosen
    )


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

_REFUSED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (rf"{_ANCHOR}\.divergence", lambda value: value == "distribution_kl", LEFT),
    (rf"{_ANCHOR}\.samples", lambda value: str(value).startswith("store:"), LEFT),
    (r"self_consistency\.reward", partial(ne, "majority"), LEFT),
    (r"self_consistency\.samples", lambda _: True, LEFT),
    (rf"{_ANCHOR}\.samples", lambda value: str(value).startswith("recent:"), RIVAL_LEFT),
    (rf"{_ANCHOR}\.(target|recent_capacity)", lambda _: True, RIVAL_LEFT),
    *((rf"{_ANCHOR}\.{name}", partial(ne, off), RIVAL_LEFT) for name, off in _OF_ANCHORS.items()),
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
    refused = []
    if isinstance(method := table.get("method"), str) and method in _METHODS:
        refused.append(_METHODS[method].format(f"method = {method!r}"))
    for name, off in _OFF.items():
        inside = table.get(name, off)
        if not isinstance(inside, Mapping) or any(inside.get(k, ...) != off[k] for k in off):
            refused.append((TRL_LEFT if name == "trl" else LEFT).format(f"[{name}]"))
    if isinstance(stores := table.get("stores"), Mapping):
        refused += [LEFT.format(f"[stores.{name}]") for name in stores]
    for key, value in flat(table):
        for pattern, left, refusal in _REFUSED:
            if re.fullmatch(pattern, key) and left(value):
                refused.append(refusal.format(f"{key} = {value!r}"))
    if isinstance(train := table.get("train"), Mapping) and train.get("engine") == "trl":
        refused.append(TRL_LEFT.format("train.engine = 'trl'"))
    if refused:
        raise SettingsError("; ".join(refused))
    return _without_dropped(table, "")


def _without_dropped(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name: _without_dropped(value, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in table.items()
        if not _DROPPED.fullmatch(f"{prefix}{name}")
    }

"""The digest of all inputs that decide the weights of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from dph._base.files import sha256
from dph._base.import_path import is_import_path, source_fingerprint
from dph.errors import SettingsError
from dph.model.policies import directory_fingerprint, tokenizer_fingerprint
from dph.recipe import Recipe, changed_settings, load_recipe, recipe_digest
from dph.recipe.places import with_directory
from dph.runs.directory import MANIFEST
from dph.tasks.problems import load_problems, problems_fingerprint
from dph.tasks.verifiers.base import Verifier, verifier_identity
from dph.tasks.verifiers.table import verifier_settings

_SECTIONS = ("model", "data", "sampling", "presample", "objective", "train")
_WITHOUT_RESULT = {
    "data.sets",
    "data.verifier_crash_limit",
    "data.verifier_workers",
    "model.threads",
    "presample.pool",
    "sampling.engine",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.keep_samples",
    "train.keep_samples_mb",
    "train.steps",
}
"""Settings of these sections that change no weights."""
_PLACES = {
    "data.columns",
    "data.databases",
    "data.modules",
    "data.shots",
    "data.train",
    "model.path",
    "model.revision",
    "objective.anchors",
    "presample.seed",
}
"""Keys whose contents count, not their paths; and the seed that holds, whichever key named it."""
_ADDED: Mapping[str, Any] = {
    "train.final_rate": 1.0,
    "presample.keep": 1,
    **{
        f"data.{key}": setting.default
        for key, setting in verifier_settings().items()
        if not setting.always_counts
    },
    "data.shots": None,
    "data.template": {},
    "model.weights": "float32",
    "train.engine": "own",
    "model.adapter": None,
    "model.kernels": "torch",
}
_GONE = {"sampling.cuda_graphs": False}
"""Removed settings, with the values that earlier runs counted."""
_ADDED_TO_ANCHORS = {"whole_prompts": False, "whole_schemas": False, "tokens_per_step": None}
"""Later settings, with their values in earlier runs, which continue unless they use them."""
_MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class TrainingKey:
    """The digest of everything that decides the weights after a given number of steps.

    Paths do not count: the model, its tokenizer, its stop tokens, the problems and the verifier's
    databases count by their contents, so that a run may be moved. Nor does the verifier's version,
    which a checkpoint names apart, so that a changed verifier can be accepted. ``asked`` is the
    fingerprint of the training problems with their examples.
    """

    recipe: Recipe
    initial: Path
    tokenizer: PreTrainedTokenizerBase
    asked: str
    verifier: Verifier

    def digest(self) -> str:
        """The digest, with the pools of anchors as they are now."""
        before, after = self._inputs
        anchors = {}
        for name, anchor in self.recipe.objective.anchors.items():
            said = anchor.model_dump(mode="json").items()
            used = {key: value for key, value in said if _ADDED_TO_ANCHORS.get(key, ...) != value}
            # The contents of a pool instead of its path.
            anchors[name] = {**used, "samples": with_directory(anchor.samples, _held)}
        return recipe_digest(*before, anchors, *after)

    @cached_property
    def _inputs(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Inputs that no stage changes, those before and after the pools of anchors."""
        recipe, identity = self.recipe, verifier_identity(self.verifier)
        settings = {
            key: value
            for section in _SECTIONS
            for name, value in getattr(recipe, section).model_dump(mode="json").items()
            if _counts(recipe, key := f"{section}.{name}", value)
        }
        before = (
            directory_fingerprint(self.initial),
            tokenizer_fingerprint(self.tokenizer),
            self.asked,
            {"verifier": identity["name"], "settings": identity["settings"]},
            _GONE | settings,
        )
        objective = recipe.objective
        terms = (
            objective.advantage,
            objective.surrogate,
            *objective.penalties.values(),
            *objective.anchors.values(),
        )
        own = {  # the files of user-defined terms
            term.chosen: source_fingerprint(term.chosen.partition(":")[0], recipe.data.modules)
            for term in terms
            if is_import_path(term.chosen)
        }
        return before, (own, recipe.presampling_seed, recipe.seed, *_other_sections(recipe))


def _other_sections(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """Settings of other sections, if training reads them and they are not the default."""
    settings, acts = recipe.self_consistency, recipe.environment
    if settings.active:
        said = settings.model_dump(mode="json", exclude={"file", "allow_overlap"})
        said |= {"reward": "majority", "samples": None}  # counted while there were other rewards
        file = settings.file
        held = problems_fingerprint(load_problems(file)) if file and file.exists() else ""
        own = settings.agreement
        code = source_fingerprint(own.partition(":")[0], recipe.data.modules) if own else ""
        yield {"self_consistency": said, "prompts": held, "agreement": code}
    if recipe.train.engine == "verl" and recipe.verl.overrides:
        yield {"verl": list(recipe.verl.overrides)}
    if acts.path is not None and acts.tokens != type(acts).model_fields["tokens"].default:
        yield {"environment.tokens": acts.tokens}


def _held(pool: str) -> str:
    manifest = Path(pool) / MANIFEST
    return sha256(manifest) if manifest.is_file() else ""


def _counts(recipe: Recipe, key: str, value: Any) -> bool:
    if key == "train.steps":  # where the learning rate falls until the last of them
        return recipe.train.final_rate < 1
    if key in _ADDED and value == _ADDED[key]:
        return False
    return _changes_the_result(key) and key not in _PLACES


def what_changed(path: Path, recipe: Recipe) -> str:
    """Differences of ``recipe`` from the one in ``path``, which began a run; '' if unreadable."""
    try:
        changed = changed_settings(load_recipe(path), recipe)
    except SettingsError:
        return ""
    named = [f"{key} {how}" for key, how in changed.items() if _changes_the_result(key)]
    more = f"; and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    if not named:
        return (
            "[the recipe says the same: the model's files, its tokenizer or chat template, the "
            "problems, the databases, a pool of an anchor, or a user-defined term changed]"
        )
    return f"[{'; '.join(named[:_MOST_NAMED])}{more}]"


def _changes_the_result(key: str) -> bool:
    section, _, rest = key.partition(".")
    setting = f"{section}.{rest.partition('.')[0]}"
    named = section == "self_consistency" and not key.endswith(".file")
    acts = section == "environment" and setting != "environment.processes"
    counts = section in _SECTIONS and setting not in _WITHOUT_RESULT
    return key == "seed" or named or acts or counts

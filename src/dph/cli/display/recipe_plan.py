"""The plan of a recipe, in words."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dph.recipe import Recipe
from dph.recipe.keys import NAMED_TABLES, term_parameters
from dph.recipe.objective import TermSettings
from dph.recipe.section import section_in
from dph.runs.directory import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One dotted key. ``value`` is absent where there is no recipe."""

    name: str
    meaning: str
    required: bool
    default: Any
    has_value: bool = False
    value: Any = None

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


def all_keys() -> list[Key]:
    return list(_keys(Recipe, "", None))


def keys_of(recipe: Recipe) -> list[Key]:
    return list(_keys(Recipe, "", recipe.model_dump(mode="json")))


def _keys(section: type[BaseModel], prefix: str, values: dict[str, Any] | None) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        below = section_in(field.annotation)
        inside = None if values is None else values[name]
        if prefix + name in NAMED_TABLES:
            for own in ["*"] if inside is None else inside:
                content = None if inside is None else inside[own]
                yield from _keys(NAMED_TABLES[prefix + name], f"{prefix}{name}.{own}.", content)
        elif below is not None and (values is None or inside is not None):
            yield from _keys(below, f"{prefix}{name}.", inside)
        else:
            default = None if field.is_required() else field.default
            yield Key(
                name=f"{prefix}{name}",
                meaning=field.description or "",
                required=field.is_required(),
                default=list(default) if isinstance(default, tuple) else default,
                has_value=values is not None,
                value=inside,
            )
    if issubclass(section, TermSettings):
        yield from _term_keys(section, prefix, values)


def _term_keys(
    section: type[TermSettings], prefix: str, values: dict[str, Any] | None
) -> Iterator[Key]:
    """The parameters of the chosen term, or those of all that can be chosen."""
    known = term_parameters(section, None if values is None else values[section.selector])
    own = (
        known
        if values is None
        else {k: v for k, v in values.items() if k not in section.model_fields}
    )
    for name in own:
        meaning, default = known.get(name, (f"of {values and values[section.selector]}", None))
        yield Key(
            name=f"{prefix}{name}",
            meaning=meaning,
            required=False,
            default=default,
            has_value=values is not None,
            value=None if values is None else values[name],
        )


def _plain(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


def stages(recipe: Recipe) -> list[str]:
    presample, found = recipe.presample, [_training(recipe), _evaluation(recipe)]
    if recipe.needs_pool:
        pool = RunDirectory.of(recipe, None).pool(recipe)
        found.insert(
            0,
            f"pre-sample: {presample.samples} samples a problem and a final one, near-perfect "
            f"from {presample.threshold} correct; pool in {pool}",
        )
    return found


def _training(recipe: Recipe) -> str:
    train, objective, unlabelled = recipe.train, recipe.objective, recipe.self_consistency
    rewarded = (
        f" ({unlabelled.problems_per_step} unlabelled, rewarded by majority)"
        if unlabelled.active
        else ""
    )
    rehearsal = "".join(
        f" + {anchor.per_step or train.rehearsal_per_step} rehearsal samples "
        f"({anchor.divergence}, eta {anchor.weight:g})"
        for anchor in objective.active_anchors.values()
    )
    penalty = "".join(
        f", {'KL' if term.kind == 'kl' else term.kind} penalty {term.weight:g}{_parameters(term)}"
        for term in objective.active_penalties.values()
    )
    kind = objective.advantage.kind
    advantage = "" if kind == "group" else f", advantage {kind}{_parameters(objective.advantage)}"
    return (
        f"train: {train.steps} steps of {train.problems_per_step} problems x "
        f"{train.samples_per_problem} samples{rewarded}{advantage}{rehearsal}{penalty}, "
        f"{train.minibatches} mini-batches x {train.epochs} epochs, "
        f"learning rate {train.learning_rate:g}"
    )


def _parameters(term: TermSettings) -> str:
    values = ", ".join(str(value) for value in term.parameters.values() if value is not None)
    return f" ({values})" if values else ""


def _evaluation(recipe: Recipe) -> str:
    settings, sets = recipe.evaluate, recipe.data.sets
    if not sets:
        return "evaluate: nothing, because [data.sets] names no set"
    ks, names = ", ".join(map(str, settings.k)), ", ".join(sets)
    said = f"evaluate: {settings.samples} samples a problem, pass@{ks} on {names}"
    if settings.every:
        during = settings.during
        said += (
            f"; every {settings.every} steps of training {during.samples} samples to at most "
            f"{during.problems} problems of each of {', '.join(settings.during_sets(sets))}"
        )
    return said

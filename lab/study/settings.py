"""The tables of a STUDY.toml: what is compared, on what, and how often."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from dph.errors import SettingsError
from dph.recipe import METHODS, STRENGTHS
from dph.recipe.section import Count, Positive, Section, fault, faults_of, read_table

# The rule: how strengths are chosen and what is tested, said before the first run.

_METRIC = re.compile(r"greedy|mean|styles|keep|explore|cut_off|(?:pass|front|matched)@[1-9][0-9]*")
Texts = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


def metric_names(text: str) -> tuple[str, ...]:
    """The metrics that are added up: ``greedy + pass@16`` is two.

    >>> metric_names("greedy + pass@16")
    ('greedy', 'pass@16')
    """
    names = tuple(part.strip() for part in text.split("+"))
    for name in names:
        if not _METRIC.fullmatch(name) or (name.startswith("matched") and len(names) > 1):
            raise ValueError(
                f"unknown metric {name!r}; there are greedy, mean, pass@K, front@K, styles, keep, "
                "explore and cut_off, sums of them such as 'greedy + pass@16', and in [[compare]] "
                "matched@K"
            )
    return names


class ChoiceSettings(Section):
    """``[choose]``: which strength a method gets, by its runs on the development seeds."""

    metric: str = Field("greedy + pass@16", description="score to maximise; + adds metrics")
    sets: Texts | None = Field(None, description="evaluation sets to average over; default: all")
    worlds: Literal["each", "all"] = Field(
        "each", description="one choice for each world, or one for the mean over all"
    )
    tie: float = Field(0.005, ge=0, description="scores less than this below the best are a tie")
    tie_goes_to: Literal["stronger", "weaker"] = Field(
        "stronger",
        description="preference among ties: the larger strength, the shorter step from the base",
    )

    @field_validator("metric")
    @classmethod
    def _is_known(cls, text: str) -> str:
        if metric_names(text)[0].startswith("matched"):
            raise ValueError(f"{text} is of two methods, not of one: choose by another metric")
        return text


class ComparisonSettings(Section):
    """``[[compare]]``: one test on the report seeds, a against b, paired by seed."""

    a: Annotated[str, Field(min_length=1)] = Field(description="label of a method")
    b: Annotated[str, Field(min_length=1)] = Field(description="label of another, or base")
    metric: str = Field(description="metric, as in [choose]")
    set: str | Texts = Field(description="an evaluation set, or several: their mean")
    world: str | None = Field(None, description="name of a world; default: each of them")
    alternative: Literal["greater", "less", "two-sided"] = Field(
        "two-sided", description="a greater than b, less, or either"
    )

    @field_validator("metric")
    @classmethod
    def _is_known(cls, text: str) -> str:
        metric_names(text)
        return text

    @model_validator(mode="after")
    def _are_two(self) -> Self:
        if self.a == self.b:
            raise ValueError(f"a comparison needs two methods, got a = b = {self.a!r}")
        return self

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets of which the mean is compared."""
        return (self.set,) if isinstance(self.set, str) else self.set


class RuleSettings(Section):
    """Everything that is fixed before the first run."""

    choose: ChoiceSettings = ChoiceSettings()
    compare: Annotated[tuple[ComparisonSettings, ...], Field(strict=False)] = ()
    fronts: dict[str, Texts] = Field(
        {}, description="labels whose runs belong to the front of a label, for front@K"
    )
    correction: Literal["holm", "none"] = Field(
        "holm", description="correction of the p-values of all comparisons together"
    )


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
Label = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f]([^\x00-\x1f]*[^\s\x00-\x1f])?$")]
Rate = Annotated[float, Field(gt=0)]
Strength = Annotated[float, Field(ge=0)]
Weight = Annotated[float, Field(ge=0, le=1)]
Seeds = Annotated[tuple[Count, ...], Field(strict=False)]
BASE = "base"
"""Name of the initial policy among methods; no method may have it."""


class StudySettings(Section):
    """``[study]``: seeds, cores, and what is the same for all methods."""

    name: Name = Field(description="name of the study and of its directory")
    seeds_development: Seeds = Field((), description="seeds for choosing strengths")
    seeds_report: Seeds = Field(min_length=1, description="seeds for the tables")
    jobs: Positive | None = Field(None, description="runs at a time; default: the number of cores")
    reference: Label | None = Field(
        None, description="label that tables show differences to; default: the first method's"
    )
    beside: Annotated[tuple[Label, ...], Field(strict=False)] = Field(
        (), description="more labels that tables show differences to"
    )
    shown: Annotated[tuple[Label, ...], Field(strict=False)] = Field(
        (), description="labels shown in the short table; default: all"
    )
    keep: Literal["scores", "checkpoints"] = Field(
        "scores", description="files to keep of a finished run"
    )
    learning_rate: Rate | None = Field(
        None, description="learning rate of methods without their own; default: the world's"
    )
    learning_rate_of: Label | None = Field(
        None, description="use the learning rate chosen for the method of this label"
    )

    @model_validator(mode="after")
    def _seeds_are_apart(self) -> Self:
        for name in ("seeds_development", "seeds_report"):
            seeds = getattr(self, name)
            if twice := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
                raise ValueError(f"{name} names {twice[0]} more than once")
        if both := sorted(set(self.seeds_development) & set(self.seeds_report)):
            raise ValueError(
                f"the seed {both[0]} is one of seeds_development and one of seeds_report: seeds "
                f"that strengths were chosen on cannot report on them"
            )
        if self.learning_rate is not None and self.learning_rate_of is not None:
            raise ValueError("give learning_rate or learning_rate_of, not both")
        return self


class BudgetSettings(Section):
    """``[budget]``: how long runs on worlds are; a recipe says so itself."""

    steps: Positive = Field(40, description="training steps")
    problems_per_step: Positive = Field(32, description="problems a step")
    samples: Positive = Field(32, description="samples a problem in evaluations")
    checkpoint_every: Positive = Field(10, description="steps between checkpoints")
    score_every: Positive | None = Field(
        None, description="steps between checkpoints that are scored; default: only the last one"
    )


class WorldSettings(Section):
    """``[[worlds]]``: one small world, drawn anew for each seed."""

    task: str = Field(description="task: sql, countdown, real or real-spider")
    name: Name | None = Field(None, description="name in tables; default: the task")
    sizes: dict[str, Positive] = Field({}, description="problems a set, by the set's name")
    base_steps: Positive | None = Field(None, description="training steps of the base model")
    settings: dict[str, Any] = Field({}, description="settings of every recipe on this world")


class RecipeSettings(Section):
    """``[[recipes]]``: a user-defined recipe in the place of a world; seeds override its seed."""

    path: Annotated[str, Field(min_length=1)] = Field(description="the recipe's file")
    name: Name | None = Field(None, description="name in tables; default: the recipe's name")
    settings: dict[str, Any] = Field({}, description="settings that override the recipe's")


class MethodSettings(Section):
    """``[[methods]]``: a named method, and what is tried of it."""

    name: str = Field(description="one of the named methods")
    label: Label = Field(description="label in tables; default: the method's name")
    strengths: Annotated[tuple[Strength, ...], Field(strict=False, min_length=1)] | None = Field(
        None, description="candidate values of the method's strength"
    )
    strength_of: Label | None = Field(
        None, description="use the strength chosen for the method of this label"
    )
    learning_rates: Annotated[tuple[Rate, ...], Field(strict=False, min_length=1)] | None = Field(
        None, description="candidate learning rates"
    )
    learning_rate_of: Label | None = Field(
        None, description="use the learning rate chosen for the method of this label"
    )
    interpolate: Annotated[tuple[Weight, ...], Field(strict=False, min_length=1)] | None = Field(
        None, description="candidate weights between the base model (0) and the trained one (1)"
    )
    interpolate_from: Positive | None = Field(
        None, description="step of the checkpoint that takes the base model's place in a mixture"
    )
    interpolate_layers: tuple[Count, Positive] | None = Field(
        None, strict=False, description="A, B: mix layers A to B - 1; the rest is the trained one's"
    )
    steps: Positive | None = Field(None, description="training steps; default: the budget's")
    settings: dict[str, Any] = Field({}, description="settings in addition to the method's own")

    @model_validator(mode="before")
    @classmethod
    def _label_follows_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and "label" not in data and "name" in data:
            return {**data, "label": data["name"]}
        return data

    @field_validator("name")
    @classmethod
    def _method_is_known(cls, name: str) -> str:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
        return name

    @model_validator(mode="after")
    def _grid_makes_sense(self) -> Self:
        if self.label == BASE:
            raise ValueError(f"the label {BASE!r} is the initial policy's")
        if (self.strengths or self.strength_of) and STRENGTHS[self.name] is None:
            raise ValueError(f"{self.name} has no strength to set")
        start, layers = self.interpolate_from, self.interpolate_layers
        if not self.interpolate and (start or layers):
            raise ValueError("interpolate_from and interpolate_layers need interpolate")
        if layers and layers[0] >= layers[1]:
            raise ValueError(
                f"interpolate_layers needs an end above its start, got {layers[0]}, {layers[1]}"
            )
        for grid, other in (("strengths", "strength_of"), ("learning_rates", "learning_rate_of")):
            if getattr(self, grid) is not None and getattr(self, other) is not None:
                raise ValueError(f"give {grid} or {other}, not both")
        for grid in ("strengths", "learning_rates", "interpolate"):
            values = getattr(self, grid) or ()
            if len(set(values)) < len(values):
                raise ValueError(f"{grid} names a value more than once: {list(values)}")
        return self


class StudyFile(Section):
    """A whole STUDY.toml."""

    study: StudySettings
    budget: BudgetSettings = BudgetSettings()
    settings: dict[str, Any] = Field({}, description="settings of every recipe")
    worlds: Annotated[tuple[WorldSettings, ...], Field(strict=False)] = ()
    recipes: Annotated[tuple[RecipeSettings, ...], Field(strict=False)] = ()
    methods: Annotated[tuple[MethodSettings, ...], Field(strict=False, min_length=1)]
    rule: str | RuleSettings = Field(description="the rule, or the path of its file")

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if not self.worlds and not self.recipes:
            raise ValueError("a study needs at least one of [[worlds]] or [[recipes]]")
        return self

    @model_validator(mode="after")
    def _labels_lead_somewhere(self) -> Self:
        labels = [method.label for method in self.methods]
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise ValueError(f"two methods have the label {twice[0]!r}; give each its own")
        study = self.study
        named = {study.learning_rate_of, study.reference, *study.beside, *study.shown} | {
            label for m in self.methods for label in (m.strength_of, m.learning_rate_of)
        }
        if unknown := sorted(named - {None} - set(labels), key=str):
            raise ValueError(f"no method has the label {unknown[0]!r}, only {', '.join(labels)}")
        self._strengths_fit()
        self._mixtures_have_their_checkpoint()
        return self

    def _strengths_fit(self) -> None:
        by_label = {method.label: method for method in self.methods}
        for method in self.methods:
            other = by_label.get(method.strength_of or method.label, method)
            if other.name != method.name:
                raise ValueError(
                    f"{method.label!r} cannot take the strength of {other.label!r}: one is "
                    f"{method.name}, the other {other.name}"
                )

    def _mixtures_have_their_checkpoint(self) -> None:
        every = self.budget.checkpoint_every
        for method in self.methods:
            start, steps = method.interpolate_from, method.steps or self.budget.steps
            if start and not self.recipes and (start >= steps or start % every):
                raise ValueError(
                    f"{method.label!r} has no checkpoint to interpolate from after step {start}: "
                    f"choose a multiple of {every} below {steps}"
                )


# Reading a STUDY.toml and its rule; nothing is run before both are valid.

Table = TypeVar("Table", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A valid study, and the rule that it obeys."""

    path: Path
    file: StudyFile
    rule: RuleSettings
    rule_sha256: str
    """Of the rule's file, byte by byte; of a ``[rule]`` table, of its canonical JSON."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the methods, in the study's order."""
        return tuple(method.label for method in self.file.methods)


def load_study(path: Path) -> Study:
    """Read a study and its rule."""
    file = _valid(StudyFile, read_table(path, "study"), f"{path}")
    if isinstance(file.rule, str):
        place = path.parent / file.rule
        rule = _valid(RuleSettings, read_table(place, "rule"), f"{place}")
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
    else:
        rule = file.rule
        text = json.dumps(rule.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
    study = Study(path=path, file=file, rule=rule, rule_sha256=digest)
    _require_known_labels(study)
    _require_development_seeds(study)
    return study


def with_settings(study: Study, settings: Mapping[str, Any]) -> Study:
    """The study with other values in ``[study]``; those that are None stay as they are."""
    given = {key: value for key, value in settings.items() if value is not None}
    table = study.file.study.model_copy(update=given)
    return replace(study, file=study.file.model_copy(update={"study": table}))


def _valid(kind: type[Table], table: Mapping[str, Any], place: str) -> Table:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise SettingsError(f"{place}: {'; '.join(_messages(error, kind))}") from error


def _messages(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """The faults, with the place, the value and what is allowed."""
    unions = {"rule.str", "rule.RuleSettings"}  # rule is a path or a table: one of the two is meant
    details = faults_of(error)
    whole = isinstance(next((d["input"] for d in details if d["loc"][:1] == ("rule",)), None), dict)
    for item in details:
        if ".".join(map(str, item["loc"][:2])) == "rule.str" and whole:
            continue
        place = [part for part in item["loc"] if f"rule.{part}" not in unions]
        yield fault(item, place, kind)


def _require_known_labels(study: Study) -> None:
    known = (BASE, *study.labels)
    named: list[tuple[str, ...]] = [(one.a, one.b) for one in study.rule.compare]
    named += [(label, *others) for label, others in study.rule.fronts.items()]
    for labels in named:
        for label in labels:
            if label not in known:
                raise SettingsError(
                    f"the rule compares {label!r}, which is not the label of a method; there are "
                    f"{', '.join(known)}"
                )


def _require_development_seeds(study: Study) -> None:
    if study.file.study.seeds_development:
        return
    for method in study.file.methods:
        grids = (method.strengths, method.learning_rates, method.interpolate)
        if any(grid is not None and len(grid) > 1 for grid in grids):
            raise SettingsError(
                f"{method.label!r} has several values to choose from, and study.seeds_development "
                "is empty: name the seeds to choose on"
            )

"""The settings of ``[objective]``: a sum of terms.

    loss = surrogate(advantages) + sum of weight * penalty + sum of weight * anchor

Each term is a separate table: its kind, and its parameters. Penalties and anchors
have names, so that a recipe can change one of them and metrics can tell them apart.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dph.recipe.places import POOL, AnySamples, directory_of
from dph.recipe.section import Count, Positive, Section
from dph.recipe.terms import (
    ADVANTAGES,
    DIVERGENCES,
    PENALTIES,
    REF_LOGPROBS,
    SURROGATES,
    Term,
    checked_parameters,
    reads,
    reads_reference,
)


def _choices(table: Mapping[str, Term]) -> str:
    return f"{', '.join(table)}, or your own module:callable"


class TermSettings(Section):
    """Settings common to all terms: a choice from a table, and that term's own parameters."""

    model_config = ConfigDict(extra="allow")
    table: ClassVar[Mapping[str, Term]]
    selector: ClassVar[str] = "kind"

    @model_validator(mode="before")
    @classmethod
    def _parameters_fit(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        field = cls.model_fields[cls.selector]
        name = data.get(cls.selector, None if field.is_required() else field.default)
        if not isinstance(name, str):
            return data
        own = {key: value for key, value in data.items() if key not in cls.model_fields}
        common = {key: value for key, value in data.items() if key in cls.model_fields}
        return common | checked_parameters(cls.table, name, own)

    @property
    def chosen(self) -> str:
        return str(getattr(self, self.selector))

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class AdvantageSettings(TermSettings):
    """Advantages computed from rewards."""

    table = ADVANTAGES
    kind: str = Field("group", description=_choices(ADVANTAGES))


class SurrogateSettings(TermSettings):
    """Objective to maximise on new samples."""

    table = SURROGATES
    kind: str = Field("clipped", description=_choices(SURROGATES))


class PenaltySettings(TermSettings):
    """One term on new samples."""

    table = PENALTIES
    kind: str = Field("kl", description=_choices(PENALTIES))
    weight: float = Field(0.0, ge=0, description="weight in the loss; 0: off")


class AnchorSettings(TermSettings):
    """One term on stored samples."""

    table = DIVERGENCES
    selector = "divergence"
    divergence: str = Field(description=_choices(DIVERGENCES))
    weight: float = Field(0.0, ge=0, description="weight in the loss; 0: off")
    samples: AnySamples = Field(
        POOL,
        description="stored samples to read: those of the run's pool (pool), or of another pool "
        "(pool:DIR)",
    )
    per_step: Positive | None = Field(
        None, description="stored samples per rollout; default: train.rehearsal_per_step"
    )
    whole_prompts: bool = Field(
        False, description="draw all stored answers of a prompt together: cheaper, less varied"
    )
    whole_schemas: bool = Field(
        False,
        description="draw stored answers whose prompts begin alike (one schema) together: cheaper, "
        "less varied",
    )
    tokens_per_step: Positive | None = Field(
        None,
        description="limit of computed tokens of stored samples per rollout (shared prefixes "
        "count once); at least one sample is drawn",
    )

    @property
    def pool(self) -> Path | None:
        """The directory of another run's pool."""
        name = directory_of(self.samples)
        return Path(name) if name else None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.whole_prompts and self.whole_schemas:
            raise ValueError(
                "whole_prompts and whole_schemas are two ways of drawing stored answers: set one "
                "of them to false"
            )
        return self


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
        table = expanded
        *parents, last = SHORTHAND[name]
        for parent in parents:
            inside = table.get(parent, {})
            if not isinstance(inside, Mapping):
                raise ValueError(f"{parent} is a table of settings, got {inside!r}")
            table[parent] = dict(inside)
            table = table[parent]
        if last in table and table[last] != value:  # nan is not equal to itself
            place = ".".join(SHORTHAND[name])
            raise ValueError(f"{name}={value!r} is short for {place}, but that is {table[last]!r}")
        table[last] = value
    return expanded


def _in_effect(short: dict[str, Any]) -> dict[str, Any]:
    """Short names with an effect here; the definition form becomes a separate divergence."""
    if short.get("js_definition"):
        if short.get("divergence", "jensen_shannon") != "jensen_shannon":
            given = short["divergence"]
            raise ValueError(f"js_definition needs divergence='jensen_shannon', got {given!r}")
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


class ObjectiveSettings(Section):
    """The loss, and which samples take part in it. Named methods set these."""

    advantage: AdvantageSettings = AdvantageSettings()
    surrogate: SurrogateSettings = SurrogateSettings()
    penalties: dict[str, PenaltySettings] = Field(
        {}, description="terms on new samples by name ([objective.penalties.<name>])"
    )
    anchors: dict[str, AnchorSettings] = Field(
        {}, description="terms on stored samples by name ([objective.anchors.<name>])"
    )
    reduction: Literal["token_mean", "sequence_mean", "fixed_length"] = Field(
        "token_mean", description="average of token losses over a mini-batch"
    )
    dynamic_sampling: bool = Field(
        False, description="draw more problems until enough groups hold right and wrong answers"
    )
    max_refills: Count = Field(10, description="limit of extra draws of problems per step")
    overlong_buffer: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="soft overlong penalty over this last share of max_tokens; 0: off",
    )
    overlong_penalty: float = Field(1.0, ge=0, description="penalty of a completion at max_tokens")
    overlong_filter: bool = Field(
        False, description="exclude completions that were cut off at max_tokens from the loss"
    )

    @model_validator(mode="before")
    @classmethod
    def _shorthand_is_expanded(cls, data: Any) -> Any:
        return expand_shorthand(data) if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _right_answers_can_be_counted(self) -> Self:
        advantage = ADVANTAGES.get(self.advantage.chosen)
        if self.overlong_buffer and self.overlong_penalty and advantage and advantage.counts:
            raise ValueError(
                f"objective.overlong_buffer = {self.overlong_buffer} makes rewards other than 0 "
                f"and 1, and objective.advantage = {self.advantage.chosen!r} counts right answers: "
                "leave one of them out"
            )
        return self

    @property
    def active_penalties(self) -> dict[str, PenaltySettings]:
        """Those that weigh anything."""
        return {name: term for name, term in self.penalties.items() if term.weight > 0}

    @property
    def active_anchors(self) -> dict[str, AnchorSettings]:
        """Those that weigh anything."""
        return {name: term for name, term in self.anchors.items() if term.weight > 0}

    @property
    def rehearses(self) -> bool:
        return bool(self.active_anchors)

    @property
    def rehearses_pool(self) -> bool:
        """True if some of them come from the run's own pool."""
        return any(anchor.samples == POOL for anchor in self.active_anchors.values())

    @property
    def needs_reference_model(self) -> bool:
        """True if new samples need log-probs of the initial policy."""
        return self.reads_reference()

    def reads_reference(self, directories: Sequence[Path] = ()) -> bool:
        """The same, with user-defined terms searched in ``directories`` first."""
        terms = (self.surrogate, *self.active_penalties.values(), *self.active_anchors.values())
        return REF_LOGPROBS in self.advantage_reads(directories) or any(
            reads_reference(term.table, term.chosen, directories) for term in terms
        )

    def advantage_reads(self, directories: Sequence[Path] = ()) -> frozenset[str]:
        """Inputs of the advantage other than rewards; ``directories`` are searched for your own."""
        return reads(self.advantage.chosen, directories)

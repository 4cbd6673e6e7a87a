"""The settings of ``[stores.<name>]``: answers of the initial policy with their distributions."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dph._base.import_path import is_import_path
from dph.recipe.hub_names import LocalPath
from dph.recipe.section import Count, FilePath, Positive, Section

# Settings of what takes prompts from a file: which rows, and which tests may be among them.

Column = str | int | float | bool


class PromptFileSettings(Section):
    """Prompts of a problem file whose rows need no answer."""

    file: LocalPath | None = Field(
        None, description="problems without answers as parquet, jsonl or csv (problem_id, prompt)"
    )
    only: dict[str, Column] = Field(
        {}, description="keep only rows of the file whose columns have these values"
    )
    novel: bool = Field(
        False, description="keep only prompts with a word that is in no training prompt"
    )
    allow_overlap: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="evaluation sets whose prompts may occur here; prompts of all others are "
        "refused",
    )
    agreement: str | None = Field(
        None,
        description="rule for agreement of two answers: your own module:callable, f(response, "
        "problem) -> "
        "key or None; default: by data.verifier",
    )


PROMPTS = ("unlabelled", "train", "recombined", "beginning")
"""Sources of prompts; any other name is a user-defined maker."""
FROM_FILE = ("unlabelled", "recombined")
"""Those that cannot be made without a file."""
MANY = "all"
Values = Literal["agreement", "distinct", "majority", "shuffled", "shuffled_distinct", "correct"]
"""Ways to value an answer."""
Targets = Literal["distributions", "answers"]
CHOOSING = ("majority", "correct")
"""Those values that are 0 or 1, and so choose among answers."""


class StoreSettings(PromptFileSettings):
    """Prompts, the initial policy's answers to them, and what is kept of them."""

    prompts: str = Field(
        "unlabelled",
        description="unlabelled (of file), train, recombined (of both), beginning (no prompt at "
        "all), or your own module:callable",
    )
    limit: Positive | None = Field(
        None, description="maximum number of prompts, taken evenly from the file"
    )
    answers: Positive = Field(16, description="answers of the initial policy to each prompt")
    top: Positive | Literal["all"] = Field(
        8, description="likeliest tokens kept at each position, in addition to those drawn; or all"
    )
    tilt: float = Field(
        0.0, ge=0, description="strength of the tilt towards answers of high value; 0: none"
    )
    values: Values = Field(
        "agreement",
        description="value of an answer: share of the other answers that agree (agreement), of "
        "the other texts (distinct: each counts once), 1 for the largest class of answers that "
        "agree and else 0 (majority), 1 if it is correct and else 0 (correct); shuffled and "
        "shuffled_distinct: the first two at random among the answers to a prompt, as a control",
    )
    targets: Targets = Field(
        "distributions",
        description="training target: the distributions along an answer, tilted; or (answers) the "
        "tokens of answers of value 1, by plain likelihood",
    )
    seed: Count | None = Field(
        None, description="seed of the answers; default: presample.seed, or seed"
    )
    place: FilePath | None = Field(
        None, description="directory of the store; default: stores/<name> in the run directory"
    )

    @field_validator("top", mode="before")
    @classmethod
    def _top_is_a_number_or_all(cls, top: object) -> object:
        whole = isinstance(top, int) and not isinstance(top, bool) and top >= 1
        if top != MANY and not whole:
            raise ValueError(f"should be a whole number from 1, or {MANY!r}, got {top!r}")
        return top

    @field_validator("prompts")
    @classmethod
    def _prompts_are_known(cls, prompts: str) -> str:
        if prompts not in PROMPTS and not is_import_path(prompts):
            raise ValueError(
                f"should be one of {', '.join(map(repr, PROMPTS))}, or your own as "
                f"'module:callable', got {prompts!r}"
            )
        return prompts

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if wrong := wrong_targets(self.targets, self.values, self.tilt):
            raise ValueError(wrong)
        if self.reads_values and self.prompts == "beginning":
            raise ValueError(
                f"tilt={self.tilt}, targets={self.targets!r}: samples from the beginning of a "
                f"sequence answer no question, so none is worth more than another; set tilt = 0 "
                f"and "
                "targets = 'distributions'"
            )
        if self.reads_values and self.values != "correct" and self.answers < 2:
            raise ValueError(
                f"values={self.values!r} compares answers: it needs at least 2 answers a prompt, "
                f"got answers={self.answers}"
            )
        if self.prompts in ("train", "beginning") and (self.file or self.only):
            raise ValueError(
                f"prompts={self.prompts!r} does not read a file: leave out file and only"
            )
        return self

    @property
    def reads_values(self) -> bool:
        """Whether what is learnt depends on the values of the answers."""
        return self.tilt > 0 or self.targets == "answers"

    @property
    def compares(self) -> bool:
        """Whether its answers are compared with each other."""
        return self.agreement is not None or (self.reads_values and self.values != "correct")

    @property
    def grades(self) -> bool:
        """Whether its answers are graded, which needs labels."""
        return self.reads_values and self.values == "correct"


def wrong_targets(targets: Targets, values: Values, tilt: float) -> str:
    """The fault in the targets of a store; '' where there is none."""
    if targets == "distributions":
        return ""
    if values not in CHOOSING:
        return (
            f"targets={targets!r} learns the answers of value 1, and values={values!r} chooses "
            f"none: set values to one of {', '.join(map(repr, CHOOSING))}"
        )
    if tilt > 0:
        return f"targets={targets!r} has no distributions to tilt: set tilt = 0, got tilt={tilt:g}"
    return ""

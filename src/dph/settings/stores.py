"""The settings of ``[stores.<name>]``: answers of the initial policy with their distributions."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from dph.import_path import is_import_path
from dph.settings.prompt_file import PromptFileSettings
from dph.settings.section import Count, FilePath, Positive

PROMPTS = ("unlabelled", "train", "recombined", "beginning")
"""Where prompts may come from; anything else is a maker of one's own."""
FROM_FILE = ("unlabelled", "recombined")
"""Those that cannot be made without a file."""
MANY = "all"


class StoreSettings(PromptFileSettings):
    """Prompts, the initial policy's answers to them, and what is kept of them."""

    prompts: str = Field(
        "unlabelled",
        description="unlabelled (of file), train, recombined (of both), beginning (no prompt at "
        "all), or module:callable of your own",
    )
    limit: Positive | None = Field(
        None, description="at most so many prompts, evenly from the file"
    )
    answers: Positive = Field(16, description="answers of the initial policy to each prompt")
    top: Positive | Literal["all"] = Field(
        8, description="likeliest tokens kept at each position, beside those drawn; or all"
    )
    tilt: float = Field(
        0.0, ge=0, description="strength of the tilt towards answers of value; 0: as they are"
    )
    values: Literal["agreement", "distinct", "correct"] = Field(
        "agreement",
        description="value of an answer: share of the other answers that agree (agreement), of "
        "the other texts (distinct: each counts once), or whether it is correct",
    )
    seed: Count | None = Field(None, description="of the answers; default: presample.seed, or seed")
    place: FilePath | None = Field(
        None, description="where the store lies; default: stores/<name> in the run directory"
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
        if self.tilt > 0 and self.prompts == "beginning":
            raise ValueError(
                f"tilt={self.tilt}: samples from the beginning of a sequence answer nothing, so "
                "none is worth more than another; set tilt = 0"
            )
        if self.tilt > 0 and self.values != "correct" and self.answers < 2:
            raise ValueError(
                f"a tilt towards agreement needs at least 2 answers a prompt, got answers="
                f"{self.answers}"
            )
        if self.prompts in ("train", "beginning") and (self.file or self.only):
            raise ValueError(f"prompts={self.prompts!r} reads no file: leave out file and only")
        return self

    @property
    def compares(self) -> bool:
        """Whether its answers are compared with each other."""
        return self.agreement is not None or (self.tilt > 0 and self.values != "correct")

    @property
    def grades(self) -> bool:
        """Whether its answers are graded, which needs labels."""
        return self.tilt > 0 and self.values == "correct"

"""Settings of what takes prompts from a file: which rows, and which tests may be among them."""

from typing import Annotated

from pydantic import Field

from dph.recipe.hub_names import LocalPath
from dph.recipe.section import Section

Column = str | int | float | bool


class PromptFileSettings(Section):
    """Prompts of a problem file whose rows need no answer."""

    file: LocalPath | None = Field(
        None, description="problems without answers as parquet, jsonl or csv (problem_id, prompt)"
    )
    only: dict[str, Column] = Field(
        {}, description="keep the rows of the file whose columns have these values"
    )
    novel: bool = Field(
        False, description="keep the prompts with a word that no training prompt has"
    )
    allow_overlap: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="evaluation sets whose prompts may be among these; all others are refused"
    )
    agreement: str | None = Field(
        None,
        description="when two answers agree: module:callable of your own, f(response, problem) -> "
        "key or None; default: by data.verifier",
    )

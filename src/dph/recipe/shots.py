"""The settings of ``[data.shots]``: solved examples before every question."""

from pydantic import Field, field_validator, model_validator

from dph.recipe.hub_names import LocalPath
from dph.recipe.section import Positive, Section

PROMPT, ANSWER = "{prompt}", "{answer}"


class ShotSettings(Section):
    """Solved examples that stand before every prompt: how a base model is asked."""

    file: LocalPath | None = Field(
        None, description="problems to show as parquet, jsonl or csv; default: of data.train"
    )
    count: Positive | None = Field(
        None, description="examples, drawn by the seed; default: all of the file, in its order"
    )
    template: str | None = Field(
        None,
        description='text of an example, "{prompt}\\n{answer}\\n\\n" by default; a question ends '
        "where its answer would begin",
    )
    answer: str = Field("answer", min_length=1, description="field that holds an example's answer")
    seed: int = Field(0, description="seed of the draw")

    @field_validator("template")
    @classmethod
    def _has_both_places(cls, template: str | None) -> str | None:
        if template is None:
            return None
        places = [template.find(PROMPT), template.find(ANSWER)]
        if min(places) < 0 or places[0] > places[1]:
            raise ValueError(f"needs {PROMPT} and then {ANSWER}")
        if template.count(PROMPT) + template.count(ANSWER) > 2:
            raise ValueError(f"has {PROMPT} and {ANSWER} once each")
        return template

    @model_validator(mode="after")
    def _says_how_many(self) -> "ShotSettings":
        if self.file is None and self.count is None:
            raise ValueError("needs a file, or the count of training problems to show")
        return self


SHOTS = tuple(ShotSettings.model_fields)
"""The names of all of them."""

"""The settings of ``[data]`` and its evaluation sets."""

from pydantic import Field, field_validator, model_validator
from dph.recipe.hub_names import LocalPath
from dph.recipe.section import Positive, Section
from typing import Annotated, Any, Literal
from pydantic import Field, model_validator
from dph.recipe.section import SQLRuleName
from dph.recipe.hub_names import SPELLING, ProblemsPath
from dph.recipe.section import FilePath, Phrase, Positive, Section


# The settings of ``[data.shots]``: solved examples before every question.

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


TemplateName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Columns = dict[str, Annotated[str, Field(min_length=1)]]


class SetSettings(Section):
    """One evaluation set."""

    path: ProblemsPath = Field(description=f"problems as parquet, jsonl or csv, or {SPELLING}")
    columns: Columns | None = Field(
        None, description="columns of this set's fields; default: data.columns"
    )
    verifier: str | None = Field(None, description="verifier of this set; default: data.verifier")
    styles: str | None = Field(
        None, description="style classifier of this set; default: data.styles"
    )


class DataSettings(Section):
    """Problems, how they are graded, and how the prompt is written."""

    train: ProblemsPath = Field(
        description="problems as parquet, jsonl or csv (problem_id, prompt, answer ...), or "
        f"{SPELLING}"
    )
    columns: Columns = Field(
        {},
        description='fields by the columns they are called in the files, {prompt = "question"}; '
        "rows without a problem_id are numbered then",
    )
    sets: dict[str, SetSettings] = Field({}, description="evaluation sets by name")
    verifier: str = Field(
        "exact",
        description="sql, math, math_qwen, code, reasoning_gym, number, exact, or module:function "
        "of your own",
    )
    modules: Annotated[tuple[FilePath, ...], Field(strict=False)] = Field(
        (),
        description="directories of your own modules, searched first; default: where they are "
        "found, beside the recipe or in the working directory",
    )
    verifier_workers: Positive = Field(1, description="worker processes of the verifier")
    verifier_timeout: float = Field(
        5.0, gt=0, description="seconds an answer may take to be graded"
    )
    verifier_crash_limit: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of a step's graded answers that may crash; more end the run",
    )
    databases: FilePath | None = Field(
        None, description="where relative database paths start (sql)"
    )
    sql_rule: SQLRuleName = Field("bird", description="when two results are equal (sql)")
    math_phrases: Annotated[tuple[Phrase, ...], Field(strict=False)] | None = Field(
        None, description="what announces an answer without a box (math); default: its own list"
    )
    math_any_expression: bool = Field(
        True, description="without box and phrase, the last expression counts (math)"
    )
    code_memory_mb: int = Field(
        1000, ge=64, description="address space of a program, in units of 10^6 bytes (code)"
    )
    gym_threshold: float = Field(
        1.0, gt=0, le=1, description="least score of a right answer (reasoning_gym)"
    )
    styles: str | None = Field(None, description="style classifier: sql, or module:function")
    chat: bool | Literal["auto"] = Field(
        False,
        description="wrap a text prompt as a user message of the chat template; auto: where the "
        "tokenizer has one",
    )
    template: dict[TemplateName, bool | int | float | str] = Field(
        {}, description="variables of the chat template, such as { enable_thinking = false }"
    )
    system_prompt: str = Field("", description="system message of the chat template")

    shots: ShotSettings | None = Field(
        None, description="solved examples before every prompt; default: none"
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_path_for_a_set(cls, data: Any) -> Any:
        sets = data.get("sets") if isinstance(data, dict) else None
        if not isinstance(sets, dict):
            return data
        plain = {name: {"path": s} if isinstance(s, str) else s for name, s in sets.items()}
        return {**data, "sets": plain}

    def columns_of(self, name: str) -> Columns:
        """What the columns of a set are called: as it says, or else as all files do."""
        own = self.sets[name].columns
        return self.columns if own is None else own

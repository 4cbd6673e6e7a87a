"""The settings of ``[environment]``."""

from dataclasses import fields
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dph._base.import_path import is_import_path
from dph.recipe.section import Count, Phrase, Positive, Section
from dph.tasks.environments import EpisodeLimits

SQL = "sql"
"""The environment that comes with the package (``dph.tasks.sql.sql_environment``)."""
_LIMITS = EpisodeLimits()


class EnvironmentSettings(Section):
    """A class whose tools the policy calls in turns before it answers."""

    path: str | None = Field(
        None,
        description="sql, or your module:Class with the tools; default: none, answers of one turn",
    )
    form: Literal["json", "plain"] = Field(
        "json", description="form of calls: json as chat templates write it, or plain lines CALL"
    )
    submits: str = Field(
        "",
        description="tool that ends a trajectory with its argument as the answer; default: the "
        "answer is the text of the turn that calls no tool",
    )
    hidden: Annotated[tuple[Phrase, ...], Field(strict=False)] = Field(
        (), description="columns of problems that reset does not get, such as the gold answer"
    )
    columns: dict[str, bool | int | float | str] = Field(
        {}, description="columns that every reset gets, in addition to those of its problem"
    )
    tokens: Positive = Field(
        4096,
        description="tokens of a trajectory, results of tools included; sampling.max_tokens "
        "limits one turn",
    )
    turns: Positive = Field(_LIMITS.turns, description="turns of the policy in a trajectory")
    calls: Positive = Field(_LIMITS.calls, description="calls of tools in one turn")
    errors: Count = Field(
        _LIMITS.errors, description="failed calls that the policy is told of; one more ends it"
    )
    seconds: float = Field(
        _LIMITS.seconds,
        gt=0,
        lt=1e6,
        description="time limit of reset, of a call and of get_reward, each",
    )
    result_characters: Positive = Field(
        _LIMITS.result_characters, description="characters of a result that the policy reads"
    )
    most_characters: Positive = Field(
        _LIMITS.most_characters, description="characters of a result; a longer one ends it"
    )
    memory_bytes: int = Field(
        _LIMITS.memory_bytes, ge=1_000_000, description="memory that the class may take"
    )
    processes: Positive = Field(128, description="trajectories whose processes live at a time")

    @field_validator("path")
    @classmethod
    def _names_a_class(cls, path: str | None) -> str | None:
        if path not in (None, SQL) and not is_import_path(str(path)):
            raise ValueError(f"should be 'sql' or name a class as 'module:Class', got {path!r}")
        return path

    @model_validator(mode="after")
    def _sql_is_whole(self) -> Self:
        given = [name for name in ("submits", "columns") if getattr(self, name)]
        if self.path == SQL and given:
            raise ValueError(f"path='sql' sets {given[0]} itself, got {getattr(self, given[0])!r}")
        return self

    @property
    def limits(self) -> EpisodeLimits:
        """Limits of each trajectory.

        Raises:
            SettingsError: most_characters is below result_characters.
        """
        return EpisodeLimits(**{each.name: getattr(self, each.name) for each in fields(_LIMITS)})

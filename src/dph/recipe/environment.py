"""The settings of ``[environment]``, and the parts of a recipe that cannot have one yet."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from dph._base.import_path import is_import_path
from dph.recipe.section import Count, Phrase, Positive, Section
from dph.tasks.environments import EpisodeLimits

if TYPE_CHECKING:
    from dph.recipe.schema import Recipe

_LIMITS = EpisodeLimits()


class EnvironmentSettings(Section):
    """A class whose tools the policy calls in turns before it answers."""

    path: str | None = Field(
        None, description="your module:Class with the tools; default: none, answers of one turn"
    )
    form: Literal["json", "plain"] = Field(
        "json", description="how calls are written: json as chat templates do, or plain lines CALL"
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
        if path is not None and not is_import_path(path):
            raise ValueError(f"should name a class as 'module:Class', got {path!r}")
        return path

    @property
    def limits(self) -> EpisodeLimits:
        """Limits of each trajectory.

        Raises:
            SettingsError: most_characters is below result_characters.
        """
        return EpisodeLimits(
            turns=self.turns,
            calls=self.calls,
            errors=self.errors,
            seconds=self.seconds,
            result_characters=self.result_characters,
            most_characters=self.most_characters,
            memory_bytes=self.memory_bytes,
        )


def wrong_environment(recipe: "Recipe") -> str:
    """The parts of a recipe that do not know trajectories; '' if there are none."""
    settings, turn = recipe.environment, recipe.sampling.max_tokens
    if settings.path is None:
        return ""
    if settings.most_characters < settings.result_characters:
        return (
            f"environment.most_characters={settings.most_characters} is below "
            f"environment.result_characters={settings.result_characters}"
        )
    longest = max(turn, recipe.evaluate.max_tokens or 0)
    if settings.tokens < longest:
        return (
            f"environment.tokens={settings.tokens} has no room for one turn of {longest} tokens "
            "(sampling.max_tokens, evaluate.max_tokens)"
        )
    refused = [f"{key} = {value!r}" for key, value in _without_turns(recipe)]
    return (
        f"[environment] is not possible with {', '.join(refused)}: these do not know trajectories "
        "yet; leave them out, or leave out environment.path"
        if refused
        else ""
    )


def _without_turns(recipe: "Recipe") -> Iterator[tuple[str, Any]]:
    """Settings of a recipe that ask for a part that knows answers of one turn alone."""
    data = recipe.data
    if recipe.sampling.engine != "torch":
        yield "sampling.engine", recipe.sampling.engine
    if recipe.self_consistency.active:
        yield "self_consistency.problems_per_step", recipe.self_consistency.problems_per_step
    if recipe.consolidation.active:
        yield "consolidation.updates", recipe.consolidation.updates
    for name in recipe.used_stores:
        yield f"stores.{name}", recipe.stores[name].targets
    if data.shots is not None:
        yield "data.shots.count", data.shots.count
    if data.styles is not None:
        yield "data.styles", data.styles
    for name, chosen in data.sets.items():
        for key in ("verifier", "styles"):
            if (value := getattr(chosen, key)) is not None:
                yield f"data.sets.{name}.{key}", value
    if recipe.evaluate.token_details:
        yield "evaluate.token_details", recipe.evaluate.token_details

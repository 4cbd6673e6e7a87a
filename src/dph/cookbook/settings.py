"""What a cookbook.toml says: one table a stage, all checked before anything runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dph.causal_lm.recipes import BaseRecipe, SFTRecipe
from dph.errors import SettingsError
from dph.settings.section import Count, Positive, Section
from dph.settings.toml_file import Name, PlacedPath, checked, load_file

WORLD = "world:"
"""What a path begins with that the stage ``world`` writes: ``world:sql``, ``world:annotators``."""
SOURCES = ("sql", "annotators", "executed")
SETS = ("in_domain",)
"""The evaluation sets of the world that fine-tuning and RL are about."""


class WorldSettings(Section):
    """``[world]``: databases and questions; SQL files, rows and problems are made of them."""

    sizes: dict[str, Positive] = Field({}, description="problems a set, by the set's name")
    files: Positive = Field(200, description="SQL files")
    queries_per_file: Positive = Field(8, description="queries in each")
    questions: Positive = Field(2000, description="that annotators answer")
    answers: Positive = Field(2, description="annotators that answer a question")


class CorpusSettings(Section):
    """``[corpora.<name>]``: raw files and how they are cleaned."""

    inputs: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = Field(
        description="as of `dph corpus ingest`; * and ? match names; or world:sql"
    )
    about: PlacedPath | None = Field(None, description="facts on the inputs")
    dedup: Literal["opencoder", "loose", "exact"] = "opencoder"
    filter: Literal["fixed", "opencoder", "sql"] = "fixed"


class MixtureSettings(Section):
    """``[mixtures.<name>]``: so many bytes of each corpus."""

    budget: Positive = Field(description="bytes of text")
    shares: dict[str, Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="weight of each corpus"
    )
    caps: dict[str, Count] = Field({}, description="most bytes of a language")


class InstructSettings(Section):
    """``[instruct.<name>]``: the rows of a stage of fine-tuning."""

    parts: dict[str, str] = Field(min_length=1, description="files of rows, or world:annotators")
    rows: dict[str, Positive] = Field(description="how many of each part")
    checks: Annotated[
        tuple[Literal["words", "entry_point", "prompt"], ...], Field(strict=False)
    ] = Field(("words", "entry_point", "prompt"), description="by what tests are recognised")


class RLSettings(Section):
    """``[rl]``: pool, methods side by side, and their evaluation."""

    methods: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = ("grpo", "dph_f")
    steps: Positive = 20
    problems_per_step: Positive = 16
    samples: Positive = Field(16, description="a problem, in evaluations")
    max_tokens: Positive = Field(64, description="longest answer")
    checkpoint_every: Positive = 5
    settings: dict[str, Any] = Field({}, description="more settings of every method's recipe")


class Cookbook(Section):
    """A whole cookbook."""

    kind: Literal["cookbook"] = "cookbook"
    name: Name = "cookbook"
    seed: Count = 0
    world: WorldSettings | None = None
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    tests: dict[Name, PlacedPath] = Field(
        {}, description="test sets that nothing is to share with; the world's own always count"
    )
    mixtures: dict[Name, MixtureSettings] = Field({})
    instruct: dict[Name, InstructSettings] = Field({})
    base: dict[str, Any] | None = Field(None, description="a recipe of `dph base`")
    sft: dict[str, Any] | None = Field(None, description="a recipe of `dph sft`")
    rl: RLSettings | None = None

    @model_validator(mode="after")
    def _names_are_there(self) -> Self:
        for name, mixture in self.mixtures.items():
            _require_known(f"mixtures.{name}.shares", mixture.shares, self.corpora)
        for name, part in self.instruct.items():
            if set(part.parts) != set(part.rows):
                raise ValueError(
                    f"instruct.{name} needs a number of rows for each part, got parts "
                    f"{', '.join(sorted(part.parts))}; rows {', '.join(sorted(part.rows))}"
                )
        for place in self._places():
            source = place.removeprefix(WORLD)
            if place.startswith(WORLD) and (self.world is None or source not in SOURCES):
                raise ValueError(
                    f"{place} needs [world] and is one of "
                    f"{', '.join(WORLD + source for source in SOURCES)}"
                )
        return self

    @model_validator(mode="after")
    def _stages_have_what_they_need(self) -> Self:
        for stage, needs in (("sft", "base"), ("rl", "sft"), ("rl", "world")):
            if getattr(self, stage) is not None and getattr(self, needs) is None:
                raise ValueError(f"[{stage}] needs [{needs}]")
        if self.base is not None and "pretraining" not in self.mixtures:
            raise ValueError("[base] needs [mixtures.pretraining]")
        for stage in (self.sft or {}).get("stages", []):
            name = stage.get("name") if isinstance(stage, dict) else None
            if name not in self.instruct:
                raise ValueError(f"the stage {name!r} of [sft] needs [instruct.{name}]")
        return self

    def _places(self) -> list[str]:
        inputs = [place for corpus in self.corpora.values() for place in corpus.inputs]
        return inputs + [place for part in self.instruct.values() for place in part.parts.values()]

    def base_recipe(self, directory: Path) -> BaseRecipe:
        """``[base]`` over the mixtures in ``directory``.

        Raises:
            SettingsError: there is none, or it is invalid.
        """
        mixtures = {"corpus": "pretraining"} | (
            {"annealing": "annealing"} if "annealing" in self.mixtures else {}
        )
        data = {key: str(directory / "mixtures" / name) for key, name in mixtures.items()}
        table = {"kind": "base", "name": f"{self.name}-base", "seed": self.seed, "data": data}
        return checked(BaseRecipe, table | (self.base or {}), beside=directory, place="[base]")

    def sft_recipe(self, directory: Path) -> SFTRecipe:
        """``[sft]`` over the base model and the rows in ``directory``.

        Raises:
            SettingsError: there is none, or it is invalid.
        """
        table: dict[str, Any] = {"kind": "sft", "name": f"{self.name}-sft", "seed": self.seed}
        table |= {"model": str(directory / "base" / "model"), **(self.sft or {})}
        table["stages"] = [
            {"rows": [str(directory / "instruct" / stage["name"] / "rows.jsonl")], **stage}
            for stage in table.get("stages", [])
        ]
        return checked(SFTRecipe, table, beside=directory, place="[sft]")


def load_cookbook(path: Path, overrides: Sequence[str] = ()) -> Cookbook:
    """Read a cookbook; inputs start at its directory.

    Raises:
        SettingsError: it, or a recipe in it, is invalid.
    """
    cookbook = load_file(Cookbook, path, overrides)
    beside = path.resolve().parent
    cookbook = cookbook.model_copy(
        update={
            "corpora": {
                name: corpus.model_copy(
                    update={"inputs": tuple(_placed(text, beside) for text in corpus.inputs)}
                )
                for name, corpus in cookbook.corpora.items()
            },
            "instruct": {
                name: part.model_copy(
                    update={"parts": {k: _placed(v, beside) for k, v in part.parts.items()}}
                )
                for name, part in cookbook.instruct.items()
            },
        }
    )
    if cookbook.base is not None:
        cookbook.base_recipe(Path())
    if cookbook.sft is not None:
        cookbook.sft_recipe(Path())
    return cookbook


def _placed(text: str, beside: Path) -> str:
    """A path of the file, from anywhere; NAME=PATH keeps its name."""
    if text.startswith(WORLD):
        return text
    name, equals, path = text.rpartition("=")
    return f"{name}{equals}{beside / path}"


def _require_known(key: str, names: Sequence[str] | dict[str, Any], known: Any) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise SettingsError(f"{key} names {unknown[0]!r}; there is {', '.join(known)}")

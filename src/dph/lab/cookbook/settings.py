"""What a cookbook.toml says: one table a stage, all checked before anything runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from dph.errors import SettingsError
from dph.lab.base.recipes import BaseRecipe, SFTRecipe
from dph.lab.cookbook.sources import DATABASES, SOURCES, SYNTH, WORLD
from dph.lab.cookbook.tables import (
    AblationTable,
    CorpusSettings,
    InstructSettings,
    MixtureSettings,
    RLSettings,
    SynthTable,
    WorldSettings,
)
from dph.recipe.section import Count, Section
from dph.recipe.toml_file import Name, PlacedPath, checked, load_file

SETS = ("in_domain",)
"""The evaluation sets of the world that fine-tuning and RL are about."""


class Cookbook(Section):
    """A whole cookbook."""

    kind: Literal["cookbook"] = "cookbook"
    name: Name = "cookbook"
    seed: Count = 0
    model_seed: Count | None = Field(None, description="of the models alone [default: seed]")
    world: WorldSettings | None = None
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    tests: dict[Name, PlacedPath] = Field(
        {}, description="test sets that nothing is to share with; the world's own always count"
    )
    synth: dict[Name, SynthTable] = Field({}, description="corpora of rows that are written here")
    ablation: AblationTable | None = Field(None, description="whether cleaning pays")
    mixtures: dict[Name, MixtureSettings] = Field({})
    instruct: dict[Name, InstructSettings] = Field({})
    base: dict[str, Any] | None = Field(None, description="a recipe of `dph base`")
    sft: dict[str, Any] | None = Field(None, description="a recipe of `dph sft`")
    rl: RLSettings | None = None

    @model_validator(mode="after")
    def _names_are_there(self) -> Self:
        known = [*self.corpora, *self.synth]
        for name, mixture in self.mixtures.items():
            _require_known(f"mixtures.{name}.shares", mixture.shares, known)
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
            if place.startswith(SYNTH):
                _require_known(place, [place.removeprefix(SYNTH)], self.synth)
        return self

    @model_validator(mode="after")
    def _what_is_written_or_recalled_has_its_source(self) -> Self:
        for name, corpus in self.corpora.items():
            if corpus.recall is not None:
                others = [other for other in self.corpora if other != name]
                _require_known(f"corpora.{name}.recall.seeds", [corpus.recall.seeds], others)
        if self.ablation is not None:
            _require_known("ablation.corpus", [self.ablation.corpus], self.corpora)
            others = [name for name in self.corpora if name != self.ablation.corpus]
            _require_known("ablation.heldout", [self.ablation.heldout], others)
        for name, table in self.synth.items():
            if name in self.corpora:
                raise ValueError(f"synth.{name} and corpora.{name} have one name")
            if table.corpus is not None:
                _require_known(f"synth.{name}.corpus", [table.corpus], self.corpora)
            if (table.databases or "").startswith(WORLD) and (
                self.world is None or table.databases != DATABASES
            ):
                raise ValueError(f"{table.databases} needs [world] and is {DATABASES}")
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

    def _named(self, stage: str) -> dict[str, Any]:
        return {"name": f"{self.name}-{stage}", "seed": self.seed_of_models}

    def _places(self) -> list[str]:
        inputs = [place for corpus in self.corpora.values() for place in corpus.inputs]
        return inputs + [place for part in self.instruct.values() for place in part.parts.values()]

    @property
    def seed_of_models(self) -> int:
        """The seed of everything that is trained or drawn from a model; data have ``seed``."""
        return self.seed if self.model_seed is None else self.model_seed

    def base_recipe(self, directory: Path) -> BaseRecipe:
        """``[base]`` over the mixtures in ``directory``.

        Raises:
            SettingsError: there is none, or it is invalid.
        """
        mixtures = {"corpus": "pretraining"} | (
            {"annealing": "annealing"} if "annealing" in self.mixtures else {}
        )
        data = {key: str(directory / "mixtures" / name) for key, name in mixtures.items()}
        table = {"kind": "base", **self._named("base"), "data": data, **(self.base or {})}
        return checked(BaseRecipe, table, beside=directory, place="[base]")

    def sft_recipe(self, directory: Path) -> SFTRecipe:
        """``[sft]`` over the base model and the rows in ``directory``.

        Raises:
            SettingsError: there is none, or it is invalid.
        """
        table: dict[str, Any] = {"kind": "sft", **self._named("sft")}
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
    if cookbook.base is not None:
        cookbook.base_recipe(Path())
    if cookbook.sft is not None:
        cookbook.sft_recipe(Path())
    return cookbook


def _require_known(key: str, names: Sequence[str] | dict[str, Any], known: Any) -> None:
    if unknown := sorted(set(names) - set(known)):
        there = ", ".join(known) or "none"
        raise SettingsError(f"{key} names {unknown[0]!r}; there is {there}")

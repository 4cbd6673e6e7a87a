"""Settings of a cookbook.toml: one table a stage, all checked before anything runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from dph.errors import SettingsError
from dph.recipe import METHODS, Recipe, merged, resolve_recipe
from dph.recipe.places import place_own_code, spell_out_sets, start_paths_at
from dph.recipe.section import (
    Count,
    Fraction,
    Name,
    PlacedPath,
    Positive,
    Section,
    checked,
    load_file,
    start_of_paths,
)
from dph_corpus.base.recipes import BaseRecipe, SFTRecipe
from dph_corpus.settings import DOCUMENTATION, SQL, RecallSettings, refuse_removed

# Where the files of a cookbook come from: paths, and what its own stages write.

WORLD = "world:"
"""Beginning of the name of a file or directory that the function of ``[world]`` makes."""
SYNTH = "synth:"
"""Beginning of the name of a file of rows that ``[synth.<name>]`` writes."""
HUB = "hf://"
"""Beginning of a name on the Hub, which is not a path and not a pattern."""


def _placed(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str) or value.startswith((WORLD, SYNTH)) or HUB in value:
        return value
    if (start := start_of_paths(value, info)) is None:
        return value
    name, equals, path = value.rpartition("=")
    return f"{name}{equals}{start / path}"


Source = Annotated[str, BeforeValidator(_placed)]
"""A path, placed as every other; NAME=PATH keeps its name, and what a stage writes stays."""


# The tables of a cookbook.toml, one class each.


_RULES = ("fixed", "opencoder", "sql")


def _rules(value: object, info: ValidationInfo) -> object:
    """The name of a preset, or a file of rules, placed as every other path."""
    if value in _RULES or not isinstance(value, str):
        return value
    if not value.endswith(".toml"):
        names = ", ".join(_RULES)
        raise ValueError(f"must be {names} or a file that ends in .toml, got {value!r}")
    place = (start_of_paths(value, info) or Path()) / value
    if not place.is_file():
        raise ValueError(f"there is no file {place}")
    return str(place)


class WorldTable(Section):
    """``[world]``: a function that makes sources, test sets and problems for RL."""

    make: str = Field(
        description="module:function; called with settings and a directory, it returns a "
        "dph_corpus.cookbook.stages.MadeWorld"
    )
    settings: dict[str, Any] = Field({}, description="passed to the function")


class RecallTable(Section):
    """``[corpora.<name>.recall]``: of its inputs, pages of the web, those that are like a seed."""

    seeds: Name = Field(description="corpus, as ingested, of example pages to find")
    rounds: Positive = 3
    threshold: float = Field(0.5, description="lowest score at which a page is recalled")
    divide: bool = Field(False, description="use the score that divides the pages best instead")
    domain_share: float = Field(
        0.1, description="share of recalled pages above which a domain is related"
    )
    vocabulary: Positive = Field(32_000, description="vocabulary size of the BPE to train")
    patterns: PlacedPath | None = Field(None, description="a reviewed url_patterns.csv")
    labelled: PlacedPath | None = Field(None, description="labelled pages")

    @model_validator(mode="before")
    @classmethod
    def _has_no_removed_key(cls, table: Any) -> Any:
        refuse_removed(table if isinstance(table, dict) else ())
        return table

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        self.settings(0)
        return self

    def settings(self, seed: int) -> RecallSettings:
        """As `dph-corpus recall` takes them."""
        return RecallSettings(
            **self.model_dump(exclude={"seeds", "patterns", "labelled"}), seed=seed
        )


class CorpusSettings(Section):
    """``[corpora.<name>]``: raw files and how they are cleaned."""

    inputs: Annotated[tuple[Source, ...], Field(strict=False, min_length=1)] = Field(
        description="inputs as for `dph-corpus ingest`; * and ? match names; or world:NAME"
    )
    about: PlacedPath | None = Field(None, description="facts on the inputs")
    recall: RecallTable | None = None
    dedup: Literal["opencoder", "loose", "exact"] = "opencoder"
    filter: Annotated[str, BeforeValidator(_rules)] = Field(
        "fixed", description="preset, or a file of rules (.toml)"
    )
    thresholds: dict[str, str] = Field(
        {}, description='your conditions, by RULE or RULE.KIND: "> 0.5", or "" for none'
    )


class SynthTable(Section):
    """``[synth.<name>]``: rows that are kept because they were executed, a corpus of that name."""

    kind: Literal["functions", "instructions", "documentation", "sql"]
    corpus: Name | None = Field(
        None, description="functions, instructions: the filtered corpus to start from"
    )
    modules: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="documentation: modules with the documented functions"
    )
    databases: Source | None = Field(
        None, description="sql: directory of <name>/<name>.sqlite; or world:NAME"
    )
    generator: str = Field("", description="writer: your own module:function")
    model: str = Field(
        "", description="writer: a model's directory, or its name on the Hub or the server"
    )
    server: str = Field(
        "", description="writer: a server that speaks OpenAI's protocol, together with model"
    )
    key_env: str = Field("", description="environment variable with the server's key")
    samples: Positive = Field(1, description="answers per seed")
    most: Positive | None = Field(None, description="seeds at most")
    max_tokens: Positive = 2048
    temperature: float = Field(1.0, gt=0)
    second: bool = Field(True, description="functions are written twice and must agree")
    survivors: Fraction = Field(0.5, description="maximum share of wrong programs that may pass")
    timeout: float = Field(5.0, gt=0, description="time limit of one test or query, in seconds")

    @model_validator(mode="after")
    def _begins_somewhere(self) -> Self:
        given = {"corpus": self.corpus, "modules": self.modules, "databases": self.databases}
        wanted = {DOCUMENTATION: "modules", SQL: "databases"}.get(self.kind, "corpus")
        if [name for name, value in given.items() if value] != [wanted]:
            raise ValueError(f"kind {self.kind} takes only {wanted} as its input")
        if bool(self.generator) == bool(self.model) or (self.server and not self.model):
            raise ValueError("name a writer: generator, model, or server with model")
        return self


class MixtureSettings(Section):
    """``[mixtures.<name>]``: a number of bytes of each corpus."""

    budget: Positive = Field(description="bytes of text")
    shares: dict[str, Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="weight of each corpus"
    )
    caps: dict[str, Count] = Field({}, description="maximum bytes of a language")


class InstructSettings(Section):
    """``[instruct.<name>]``: the rows of a stage of fine-tuning."""

    parts: dict[str, Source] = Field(
        min_length=1, description="files of rows, world:NAME or synth:NAME"
    )
    rows: dict[str, Positive] = Field(description="number of rows of each part")
    checks: Annotated[
        tuple[Literal["words", "entry_point", "prompt"], ...], Field(strict=False)
    ] = Field(("words", "entry_point", "prompt"), description="ways of recognising tests")


class RLSettings(Section):
    """``[rl]``: a run of each method from the same model and pool, and its evaluation."""

    methods: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = ("grpo", "dph_f")
    steps: Positive = 20
    problems_per_step: Positive = 16
    samples: Positive = Field(16, description="samples per problem, in evaluations")
    max_tokens: Positive = Field(64, description="longest answer")
    checkpoint_every: Positive = 5
    settings: dict[str, Any] = Field({}, description="more settings of every method's recipe")
    of_method: dict[Name, dict[str, Any]] = Field({}, description="settings of one, by its name")

    @model_validator(mode="after")
    def _methods_exist(self) -> Self:
        if len(set(self.methods)) < len(self.methods):
            raise ValueError(f"name each method only once, got {', '.join(self.methods)}")
        _require_known("rl.methods", self.methods, METHODS)
        _require_known("rl.of_method", self.of_method, self.methods)
        return self


class Cookbook(Section):
    """A whole cookbook."""

    kind: Literal["cookbook"] = "cookbook"
    name: Name = "cookbook"
    seed: Count = 0
    model_seed: Count | None = Field(None, description="seed of the models only [default: seed]")
    modules: Annotated[tuple[PlacedPath, ...], Field(strict=False)] = Field(
        (), description="directories of user-defined functions; default: the working directory"
    )
    world: WorldTable | None = None
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    tests: dict[Name, PlacedPath] = Field(
        {},
        description="test sets that must not overlap with anything; the world's own are "
        "always included",
    )
    synth: dict[Name, SynthTable] = Field({}, description="corpora of synthetic rows to write")
    mixtures: dict[Name, MixtureSettings] = Field({})
    instruct: dict[Name, InstructSettings] = Field({})
    base: dict[str, Any] | None = Field(None, description="a recipe of `dph-corpus base`")
    sft: dict[str, Any] | None = Field(None, description="a recipe of `dph-corpus sft`")
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
            if place.startswith(WORLD) and self.world is None:
                raise ValueError(f"{place} needs [world]")
            if place.startswith(SYNTH):
                _require_known(place, [place.removeprefix(SYNTH)], self.synth)
        return self

    @model_validator(mode="after")
    def _what_is_written_or_recalled_has_its_source(self) -> Self:
        for name, corpus in self.corpora.items():
            if corpus.recall is not None:
                others = [other for other in self.corpora if other != name]
                _require_known(f"corpora.{name}.recall.seeds", [corpus.recall.seeds], others)
        for name, table in self.synth.items():
            if name in self.corpora:
                raise ValueError(f"synth.{name} and corpora.{name} have one name")
            if table.corpus is not None:
                _require_known(f"synth.{name}.corpus", [table.corpus], self.corpora)
        return self

    @model_validator(mode="after")
    def _stages_have_what_they_need(self) -> Self:
        for stage, needs in (("sft", "base"), ("rl", "sft")):
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
        inputs += [table.databases for table in self.synth.values() if table.databases]
        return inputs + [place for part in self.instruct.values() for place in part.parts.values()]

    @property
    def seed_of_models(self) -> int:
        """The seed of everything that is trained or drawn from a model; data have ``seed``."""
        return self.seed if self.model_seed is None else self.model_seed

    def base_recipe(self, directory: Path) -> BaseRecipe:
        """``[base]`` over the mixtures in ``directory``."""
        mixtures = {"corpus": "pretraining"} | (
            {"annealing": "annealing"} if "annealing" in self.mixtures else {}
        )
        data = {key: str(directory / "mixtures" / name) for key, name in mixtures.items()}
        table = {"kind": "base", **self._named("base"), "data": data, **(self.base or {})}
        return checked(BaseRecipe, table, beside=directory, place="[base]")

    def sft_recipe(self, directory: Path) -> SFTRecipe:
        """``[sft]`` over the base model and the rows in ``directory``."""
        table: dict[str, Any] = {"kind": "sft", **self._named("sft")}
        table |= {"model": str(directory / "base" / "model"), **(self.sft or {})}
        table["stages"] = [
            {"rows": [str(directory / "instruct" / stage["name"] / "rows.jsonl")], **stage}
            for stage in table.get("stages", [])
        ]
        return checked(SFTRecipe, table, beside=directory, place="[sft]")

    def rl_recipes(self, model: Path, pool: Path, world: Mapping[str, Any]) -> dict[str, Recipe]:
        """The recipe of each method of ``[rl]``, over tables of the world."""
        rl = self.rl
        if rl is None:
            return {}
        table: dict[str, Any] = {
            "seed": self.seed_of_models,
            "model": {"path": str(model)},
            "presample": {"pool": str(pool)},
            "sampling": {"max_tokens": rl.max_tokens},
            "train": {
                "steps": rl.steps,
                "problems_per_step": rl.problems_per_step,
                "rehearsal_per_step": rl.problems_per_step,
                "checkpoint_every": rl.checkpoint_every,
            },
            "evaluate": {
                "seed": self.seed_of_models,
                "samples": rl.samples,
                "k": [k for k in (1, 2, 4, 8, 16, 32) if k <= rl.samples],
            },
        }
        shared = merged(merged(world, table), rl.settings)
        return {
            name: resolve_recipe(
                merged(shared, {**rl.of_method.get(name, {}), "name": name, "method": name})
            )
            for name in rl.methods
        }


def load_cookbook(path: Path, overrides: Sequence[str] = ()) -> Cookbook:
    """Read a cookbook and check the recipes in it; inputs start at its directory."""
    cookbook, beside = load_file(Cookbook, path, overrides), path.resolve().parent
    if cookbook.base is not None:
        cookbook.base_recipe(Path())
    if cookbook.sft is not None:
        cookbook.sft_recipe(Path())
    for table in (cookbook.rl.settings, *cookbook.rl.of_method.values()) if cookbook.rl else ():
        spell_out_sets(table)
        start_paths_at(table, beside)
        place_own_code(table, beside=beside, overridden=False)
    unknown = {"data": {"train": "train.jsonl"}} if cookbook.world else {}
    cookbook.rl_recipes(Path(), Path("pool"), unknown)
    return cookbook


def _require_known(key: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        there = ", ".join(known) or "none"
        raise SettingsError(f"{key} names {unknown[0]!r}; there is {there}")

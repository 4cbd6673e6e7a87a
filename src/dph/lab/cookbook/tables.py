"""The tables of a cookbook.toml, one class each."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dph.corpus.recall.settings import RecallSettings
from dph.corpus.synth.prompts import DOCUMENTATION, SQL
from dph.lab.ablation.settings import AblationSettings
from dph.lab.cookbook.sources import Source
from dph.recipe.section import Count, Fraction, Positive, Section
from dph.recipe.toml_file import Name, PlacedPath


class WorldSettings(Section):
    """``[world]``: databases and questions; SQL files, rows and problems are made of them."""

    sizes: dict[str, Positive] = Field({}, description="problems a set, by the set's name")
    files: Positive = Field(200, description="SQL files")
    queries_per_file: Positive = Field(8, description="queries in each")
    questions: Positive = Field(2000, description="that annotators answer")
    answers: Positive = Field(2, description="annotators that answer a question")


class RecallTable(Section):
    """``[corpora.<name>.recall]``: of its inputs, pages of the web, those that are like a seed."""

    seeds: Name = Field(description="the corpus, as it came in, that is what is looked for")
    rounds: Positive = 3
    threshold: float = Field(0.5, description="a page is recalled from this score on")
    domain_share: float = Field(0.1, description="a domain with more recalled pages is related")
    classifier: Literal["fasttext", "sklearn"] = "fasttext"
    vocabulary: Positive = Field(32_000, description="tokens of the BPE that is learnt")
    patterns: PlacedPath | None = Field(None, description="a reviewed url_patterns.csv")
    labelled: PlacedPath | None = Field(None, description="pages with the truth about them")

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        self.settings(0)
        return self

    def settings(self, seed: int) -> RecallSettings:
        """As `dph corpus recall` takes them.

        Raises:
            SettingsError: a value is out of range.
        """
        return RecallSettings(
            rounds=self.rounds,
            threshold=self.threshold,
            domain_share=self.domain_share,
            classifier=self.classifier,
            vocabulary=self.vocabulary,
            seed=seed,
        )


class CorpusSettings(Section):
    """``[corpora.<name>]``: raw files and how they are cleaned."""

    inputs: Annotated[tuple[Source, ...], Field(strict=False, min_length=1)] = Field(
        description="as of `dph corpus ingest`; * and ? match names; or world:sql"
    )
    about: PlacedPath | None = Field(None, description="facts on the inputs")
    recall: RecallTable | None = None
    dedup: Literal["opencoder", "loose", "exact"] = "opencoder"
    filter: Literal["fixed", "opencoder", "sql"] = "fixed"
    thresholds: dict[str, str] = Field(
        {}, description='conditions of your own, by RULE or RULE.KIND: "> 0.5", or "" for none'
    )


class SynthTable(Section):
    """``[synth.<name>]``: rows that are kept because they were executed, a corpus of that name."""

    kind: Literal["functions", "instructions", "documentation", "sql"]
    corpus: Name | None = Field(None, description="functions, instructions: the filtered corpus")
    modules: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="documentation: modules whose functions are asked about"
    )
    databases: Source | None = Field(
        None, description="sql: holds <name>/<name>.sqlite; or world:databases"
    )
    generator: str = Field("", description="who writes: module:function of your own")
    model: str = Field("", description="or a model: its directory, its name on the Hub or there")
    server: str = Field("", description="or a server that speaks OpenAI's protocol, with model")
    key_env: str = Field("", description="environment variable with the server's key")
    samples: Positive = Field(1, description="answers for each seed")
    most: Positive | None = Field(None, description="seeds at most")
    max_tokens: Positive = 2048
    temperature: float = Field(1.0, gt=0)
    second: bool = Field(True, description="functions are written twice and have to agree")
    survivors: Fraction = Field(0.5, description="share of wrong programs that may pass")
    timeout: float = Field(5.0, gt=0, description="seconds for one test or query")

    @model_validator(mode="after")
    def _begins_somewhere(self) -> Self:
        given = {"corpus": self.corpus, "modules": self.modules, "databases": self.databases}
        wanted = {DOCUMENTATION: "modules", SQL: "databases"}.get(self.kind, "corpus")
        if [name for name, value in given.items() if value] != [wanted]:
            raise ValueError(f"kind {self.kind} starts from {wanted}, and from nothing else")
        if bool(self.generator) == bool(self.model) or (self.server and not self.model):
            raise ValueError("who writes? generator, model, or server with model")
        return self


class AblationTable(AblationSettings):
    """``[ablation]``: whether cleaning pays, as `dph corpus ablate` asks."""

    corpus: Name = Field(description="the corpus, as it came in, whose cleaning is tried")
    heldout: Name = Field(description="another corpus: code that the models are measured on")


class MixtureSettings(Section):
    """``[mixtures.<name>]``: so many bytes of each corpus."""

    budget: Positive = Field(description="bytes of text")
    shares: dict[str, Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="weight of each corpus"
    )
    caps: dict[str, Count] = Field({}, description="most bytes of a language")


class InstructSettings(Section):
    """``[instruct.<name>]``: the rows of a stage of fine-tuning."""

    parts: dict[str, Source] = Field(min_length=1, description="files of rows, or world:annotators")
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

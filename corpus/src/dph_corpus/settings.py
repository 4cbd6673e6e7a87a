"""Settings of stages that the command line makes options of; loads nothing slow.

What an option is called, says and allows stands in the metadata of its field (``option``); the
field has the default.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from dph.errors import SettingsError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOption:
    """Help and name of a field's option; without a ``flag`` it is named as the field.

    ``least`` and ``most`` bound a number, ``choices`` name all values.
    """

    help: str
    metavar: str = ""
    flag: str = ""
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()


def option(default: T, help: str, metavar: str = "", **more: Any) -> T:
    """A field that is an option; ``MISSING`` is the default of one that has to be given."""
    told = SettingOption(help=help, metavar=metavar, **more)
    return field(default=default, metadata={"option": told})


REMOVED = {
    "engine": "stages run in processes of this machine, and of others by `dph-corpus work`",
    "page": "tune prints its histograms",
    "classifier": "recall learns by fastText alone",
}


def refuse_removed(names: Iterable[str]) -> None:
    """Refuse options and keys of older versions."""
    for name in names:
        if (reason := REMOVED.get(name.removeprefix("--").partition("=")[0])) is not None:
            raise SettingsError(f"{name} no longer exists: {reason}; leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """All that the outcome of recall depends on but the documents and the reviewed patterns."""

    rounds: int = option(3, "Maximum number of rounds.", "N")
    threshold: float = option(0.5, "Lowest score at which a page is recalled.", "P")
    divide: bool = option(
        False,
        "Use the score that divides the pages best into two groups instead of --threshold; for "
        "inputs with at least a tenth of relevant pages.",
        flag="--divide/--no-divide",
    )
    domain_share: float = option(
        0.1, "A domain is related if more than this share of its pages is recalled.", "S"
    )
    classifier: str = "fasttext"
    """Told in manifests."""
    vocabulary: int = option(32_000, "Vocabulary size of the BPE to train.", "N")
    characters: int = 10_000
    """Of the head of a page that are read."""
    examples: int = 500_000
    """Maximum number of pages of either kind that a round learns from."""
    seed: int = option(0, "Seed of the classifier.", "N")

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("vocabulary", 300), ("characters", 1), ("examples", 1)):
            if (value := getattr(self, name)) < least:
                raise SettingsError(f"{name} must be at least {least}, got {value}")
        if not 0 < self.threshold < 1:
            raise SettingsError(f"the threshold must lie in (0, 1), got {self.threshold}")
        if not 0 <= self.domain_share < 1:
            raise SettingsError(f"domain_share must lie in [0, 1), got {self.domain_share}")
        if self.classifier != "fasttext":
            refuse_removed(["classifier"])

    def json(self) -> Mapping[str, Any]:
        """The settings as JSON."""
        return asdict(self)


FUNCTIONS, INSTRUCTIONS, DOCUMENTATION, SQL = "functions", "instructions", "documentation", "sql"
KINDS = (FUNCTIONS, INSTRUCTIONS, DOCUMENTATION, SQL)
"""Kinds of rows: ``functions`` from documents of code, ``instructions`` evolved from tasks,
``documentation`` from signatures and doc strings, ``sql`` from databases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthSettings:
    """Rows to write, their seeds and writer, and the conditions to keep them.

    ``modules`` are names with commas. ``generator`` is ``module:function``; without one ``model``
    writes, here or on a ``server``.
    """

    kind: str = option(
        cast("Any", MISSING),
        "functions or instructions (from --input), documentation (from --modules), sql (from "
        "--databases).",
        "KIND",
        choices=KINDS,
    )
    input: Path | None = option(  # noqa: RUF009 - it makes a field
        None,
        "Documents to start from: code, or tasks to be made harder; as of other stages.",
        "PATH",
    )
    modules: str = option("", "Modules with the documented functions to use.", "A,B")
    databases: Path | None = option(  # noqa: RUF009
        None, "Directory with <name>/<name>.sqlite.", "DIR"
    )
    model: str = option(
        "", "Directory of a model or its name on the Hub; with --server, its name there.", "NAME"
    )
    server: str = option("", "A server that speaks OpenAI's protocol.", "URL")
    generator: str = option(
        "", "Your function: takes prompts and seeds, returns as many texts.", "MODULE:FUNCTION"
    )
    key_env: str = option("", "Environment variable with the server's key.", "NAME")
    most: int | None = option(None, "Maximum number of seeds [default: all].", "N", least=1)
    samples: int = option(1, "Number of answers per seed.", "N", least=1)
    seed: int = option(0, "Seed of all draws.", "N", least=0)
    max_tokens: int = option(2048, "Maximum tokens of an answer.", "N", least=1)
    temperature: float = option(1.0, "Sampling temperature, above 0.", "T")
    second: bool = option(
        True,
        "Write each function twice, the second time from the task alone; both must agree.",
        flag="--second/--no-second",
    )
    survivors: float = option(
        0.5,
        "Maximum share of programs with one injected error that may pass the tests.",
        "S",
        least=0.0,
        most=1.0,
    )
    timeout: float = option(5.0, "Seconds for one test or query.", "S")

    def json(self, generator: Mapping[str, Any]) -> dict[str, Any]:
        """All that answers and verdicts depend on but the seeds; ``generator`` is its identity."""
        return {
            "kind": self.kind,
            "samples": self.samples,
            "seed": self.seed,
            "generator": dict(generator),
            "second": self.second,
            "survivors": self.survivors,
            "timeout": self.timeout,
        }


# Nearness of near-copies: numbers of bands and rows, and whether candidates are checked.

_MOST_HASHES = 8192


@dataclass(frozen=True, slots=True)
class Nearness:
    """Two files are candidates if all hashes of one band agree.

    Equation: P(candidates) = 1 - (1 - J**rows)**bands for a Jaccard similarity of J (Leskovec,
    Rajaraman and Ullman, "Mining of massive datasets", 3.4.2).

    Args:
        bands: of the signature; 0 leaves near-copies alone.
        rows: hashes of a band.
        least_jaccard: a candidate is dropped only if its exact similarity to a kept file is at
            least that. None: candidates of candidates are one group, and one file of it is kept.
        seed: of the hashes.
    """

    bands: int
    rows: int
    least_jaccard: float | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        if self.bands < 0 or self.rows < 1 or self.bands * self.rows > _MOST_HASHES:
            raise SettingsError(
                f"need bands >= 0, rows >= 1 and at most {_MOST_HASHES} hashes, got {self.bands} "
                f"bands of {self.rows} rows"
            )
        if (least := self.least_jaccard) is not None and not (self.bands and 0 < least <= 1):
            raise SettingsError(
                f"least_jaccard must lie in (0, 1] and needs a preset with bands (exact has none), "
                f"got {least} for {self.bands} bands"
            )

    @property
    def hashes(self) -> int:
        """Of a signature."""
        return self.bands * self.rows

    def json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return asdict(self)


PRESETS: Mapping[str, Nearness] = {
    "opencoder": Nearness(bands=16, rows=128),
    "loose": Nearness(bands=14, rows=8, least_jaccard=0.7),
    "exact": Nearness(bands=0, rows=1),
}
"""``opencoder`` as published: half of the pairs at 0.975. ``loose`` catches half at 0.65, of which
those below 0.7 are kept. ``exact`` drops copies alone."""


def preset(name: str, least_jaccard: float | None = None) -> Nearness:
    """The preset of that name, looking closer where ``least_jaccard`` is given."""
    if name not in PRESETS:
        raise SettingsError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    found = PRESETS[name]
    return found if least_jaccard is None else replace(found, least_jaccard=least_jaccard)

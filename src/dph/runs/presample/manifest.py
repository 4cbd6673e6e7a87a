"""What a pool was made from and with: the part of it that is compared before it is used."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from dph._base.files import read_json
from dph.errors import DataError, PoolError
from dph.recipe.choices import WrongFinal
from dph.runs.presample.wholeness import validated

FORMAT = 2
"""What is written. Format 1, which is still read, knew neither ungradable problems nor the
verifier's settings."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """What the samples depend on. Two pools with equal sources hold equal samples."""

    model: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    problems_fingerprint: str
    chat: bool
    system_prompt: str
    verifier: str
    verifier_version: str
    verifier_settings: dict[str, Any] | None = {}
    """As JSON; None in a pool of format 1, which did not say."""
    samples: int
    temperature: float
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    dtype: str
    seed: int
    engine: str = "torch"
    """What drew them: engines draw other samples from the same seed."""

    @field_validator("verifier_settings", mode="before")
    @classmethod
    def _as_the_manifest_will_say_it(cls, value: Any) -> Any:
        return value if value is None else json.loads(json.dumps(dict(value)))


class Rule(_Record):
    """How the samples became two sets."""

    threshold: int
    wrong_final: WrongFinal
    keep: int = 1
    """Correct answers of a near-perfect problem that are stored, the final sample first."""


class Counts(_Record):
    """Sizes; ``histogram[c]`` of the problems that could be graded were solved c times of n."""

    problems: int
    exploration: int
    rehearsal: int
    discarded: int
    ungradable: int = 0
    histogram: tuple[int, ...]
    outcomes: dict[str, int] = {}
    """How many of all samples came to which outcome; empty in a pool of format 1."""


class Manifest(_Record):
    """The content of ``manifest.json``."""

    format: Literal[1, 2]
    source: Source
    rule: Rule
    counts: Counts
    files: dict[str, str]
    """SHA-256 of every other file of the pool, in hex."""


def read_manifest(path: Path) -> Manifest:
    """Read ``manifest.json``.

    Raises:
        PoolError: it is missing, damaged, or of a format this version does not know.
    """
    try:
        content = read_json(path)
    except DataError as error:
        raise PoolError(f"{path.parent} is not a pool: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found not in (1, FORMAT):
        raise PoolError(
            f"{path}: pool format {found!r} is unknown, this version reads 1 and {FORMAT}"
        )
    if found == 1 and isinstance(content.get("source"), dict):
        content["source"]["verifier_settings"] = None
    return validated(Manifest, content, path)


def policy_fields(
    *,
    tokenizer_fingerprint: str,
    temperature: float,
    dtype: str,
    model_fingerprint: str | None = None,
) -> dict[str, object]:
    """The fields of a source that log-probs depend on; without the weights where that is None."""
    weights = {} if model_fingerprint is None else {"model_fingerprint": model_fingerprint}
    return {
        "tokenizer_fingerprint": tokenizer_fingerprint,
        "temperature": temperature,
        "dtype": dtype,
        **weights,
    }

"""Provenance of a pool: the part of it that is compared before it is used."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from dph._base.files import read_json, sha256
from dph.errors import DataError, PoolError
from dph.recipe.section import WrongFinal

# Whether what was written is still there: files against their SHA-256, a manifest by its form.

Record = TypeVar("Record", bound=BaseModel)


def require_files_whole(path: Path, files: Mapping[str, str], *, what: str) -> None:
    """Compare the files of a pool or a store with their hashes.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    for name, expected in files.items():
        file = path / name
        if file.is_file() and sha256(file) == expected:
            continue
        how = "is not the file that was written (SHA-256 differs)" * file.is_file()
        raise PoolError(
            f"the {what} {path} is damaged: {name} {how or 'is missing'}; remove the {what} and "
            "pre-sample again"
        )


def validated(kind: type[Record], content: Any, path: Path) -> Record:
    """The manifest that ``path`` holds.

    Raises:
        PoolError: it lacks something, or says what cannot be; the first such key is named.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise PoolError(f"{path} is damaged: {key}: {first['msg']}") from error


# What a stored artefact was made with otherwise than a run would make it.


def first_difference(have: Mapping[str, Any], want: Mapping[str, Any]) -> str:
    """The first key with different values, with both values; '' if there is none.

    >>> first_difference({"seed": 0, "top_p": 1.0}, {"seed": 0, "top_p": 0.9})
    'top p was 1.0, this run has 0.9'
    """
    for key in {**want, **have}:
        if have.get(key) != want.get(key):
            name = key.replace("_", " ")
            return f"{name} was {have.get(key)!r}, this run has {want.get(key)!r}"
    return ""


FORMAT = 2


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """Inputs that decide the samples. Two pools with equal sources hold equal samples."""

    model: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    problems_fingerprint: str
    chat: bool
    system_prompt: str
    verifier: str
    verifier_version: str
    verifier_settings: dict[str, Any] = {}
    """As JSON."""
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
        return json.loads(json.dumps(dict(value)))


class Rule(_Record):
    """Rule that split the samples into two sets."""

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
    """How many of all samples came to which outcome."""


class Manifest(_Record):
    """The content of ``manifest.json``."""

    format: Literal[2]
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
    if found != FORMAT:
        raise PoolError(f"{path}: pool format {found!r} is unknown, this version reads {FORMAT}")
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

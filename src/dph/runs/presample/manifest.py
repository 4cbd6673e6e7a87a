"""The manifest of a pool: what its answers were made from, and what it holds."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from dph._base.files import read_json, sha256
from dph.errors import DataError, PoolError
from dph.recipe.keys import LEFT
from dph.recipe.section import WrongFinal
from dph.runs.directory import MANIFEST

FORMAT = 3


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """Inputs that decide the answers. Those of equal sources are equal."""

    model: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    prompts: str
    """Their origin: ``train``."""
    prompts_fingerprint: str
    chat: bool
    system_prompt: str
    answers: int
    """To each prompt that decide. There is one more, the final one, which decides nothing."""
    temperature: float
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    dtype: str
    seed: int
    engine: str = "torch"
    """Engine that drew them: engines draw other answers from the same seed."""
    environment: dict[str, Any] | None = None
    """Of trajectories: the most tokens of one."""


class ValueSource(_Record):
    """The verifier of the answers."""

    graded_by: str
    graded_version: str
    graded_settings: dict[str, Any] = {}

    @field_validator("graded_settings", mode="before")
    @classmethod
    def _as_the_manifest_will_say_it(cls, value: Any) -> Any:
        return json.loads(json.dumps(dict(value)))

    @classmethod
    def of(cls, graded: Mapping[str, Any]) -> "ValueSource":
        """Verdicts of this verifier, by its identity (name, version, settings)."""
        return cls(
            graded_by=graded["name"],
            graded_version=graded["version"],
            graded_settings=graded["settings"],
        )


class Rule(_Record):
    """Rule by which a pool is split."""

    threshold: int
    wrong_final: WrongFinal
    keep: int = 1
    """Correct answers of a near-perfect problem that are stored, the final sample first."""


class Counts(_Record):
    """Sizes, and what the answers came to.

    Attributes:
        prompts: the problems.
        tokens: of all answers.
        cut_off: answers that ended at ``max_tokens``.
        bytes_per_token: of all files, for each token of an answer.
        exploration: problems to explore.
        rehearsal: stored answers.
        discarded: problems that are neither explored nor rehearsed.
        ungradable: problems without a verdict.
        histogram: ``histogram[c]`` of the problems were solved c times, of those that could be
            graded.
        outcomes: how many answers came to which outcome.
    """

    prompts: int
    answers: int
    tokens: int
    cut_off: int
    bytes_per_token: float
    exploration: int = 0
    rehearsal: int = 0
    discarded: int = 0
    ungradable: int = 0
    histogram: tuple[int, ...] = ()
    outcomes: dict[str, int] = {}


class Manifest(_Record):
    """The content of ``manifest.json``."""

    format: Literal[3]
    kind: Literal["pool"]
    source: Source
    values: ValueSource
    rule: Rule
    counts: Counts
    files: dict[str, str]
    """SHA-256 of every other file, in hex."""


def read_manifest(place: Path) -> Manifest:
    """Read the manifest of the pool in ``place``.

    Raises:
        PoolError: it is missing, damaged, that of a store, or of an unknown format.
    """
    path = place / MANIFEST
    try:
        content = read_json(path)
    except DataError as error:
        raise PoolError(f"{place} is not a pool: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise PoolError(f"{path}: pool format {found!r} is unknown, this version reads {FORMAT}")
    if content.get("kind") == "store":
        raise PoolError(LEFT.format(f"the store {place}"))
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise PoolError(f"{path} is damaged: {key}: {first['msg']}") from error


def require_whole(place: Path, manifest: Manifest) -> None:
    """Compare every file with its SHA-256."""
    for name, expected in manifest.files.items():
        file = place / name
        if file.is_file() and sha256(file) == expected:
            continue
        how = "is not the file that was written (SHA-256 differs)" * file.is_file()
        raise PoolError(
            f"the pool {place} is damaged: {name} {how or 'is missing'}; remove the pool and "
            f"pre-sample again"
        )


_SETTINGS = {"answers": "presample.samples", "threshold": "presample.threshold"}
"""Settings whose values a manifest keeps under another name."""


def first_difference(have: Mapping[str, Any], want: Mapping[str, Any]) -> str:
    """The first key with different values, with both values; '' if there is none.

    >>> first_difference({"seed": 0, "top_p": 1.0}, {"seed": 0, "top_p": 0.9})
    'top p was 1.0, this run has 0.9'
    >>> first_difference({"answers": 8}, {"answers": 4})
    'presample.samples was 8, this run has 4'
    """
    for key in {**want, **have}:
        if have.get(key) != want.get(key):
            name = _SETTINGS.get(key, key.replace("_", " "))
            return f"{name} was {have.get(key)!r}, this run has {want.get(key)!r}"
    return ""


def require_source(
    place: Path, found: Manifest, expected: Source, grading: ValueSource | None = None
) -> None:
    """Refuse answers that were drawn in another way, or graded by another verifier.

    ``grading`` is None where verdicts do not matter. The directory of the model does not either,
    because its fingerprint decides; nor does what drew, because stored log-probs are the training
    forward's.
    """
    have, want = _facts(found.source, grading and found.values), _facts(expected, grading)
    if difference := first_difference(have, want):
        raise PoolError(
            f"the pool {place} does not fit this run: {difference}; pre-sample again into "
            "another directory or use the recipe that it was made with"
        )


def _facts(source: Source, grading: ValueSource | None) -> dict[str, Any]:
    facts = source.model_dump(exclude={"model", "engine", "environment"})
    facts |= {f"environment {key}": value for key, value in (source.environment or {}).items()}
    if grading is None:
        return facts
    facts |= {"verifier": grading.graded_by, "verifier_version": grading.graded_version}
    return facts | {f"verifier {key}": value for key, value in grading.graded_settings.items()}


def require_rule(place: Path, found: Manifest, rule: Rule) -> None:
    """Refuse a pool that was split in another way."""
    if difference := first_difference(found.rule.model_dump(), rule.model_dump()):
        raise PoolError(
            f"the pool {place} does not fit this run: {difference}; `dph presample` with the "
            f"settings of this run splits its samples again without drawing, or use the recipe "
            f"that the pool was split with"
        )


def require_fit(
    place: Path, found: Manifest, expected: Source, grading: ValueSource, rule: Rule
) -> None:
    """Refuse a pool that was made from something else, or split in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    require_source(place, found, expected, grading)
    require_rule(place, found, rule)


def require_policy(
    place: Path,
    found: Manifest,
    *,
    tokenizer_fingerprint: str,
    temperature: float,
    dtype: str,
    model_fingerprint: str | None = None,
    also: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Refuse answers whose log-probs another policy, temperature or precision gave.

    Their prompts, values and rule do not matter. ``model_fingerprint`` is None where the weights
    have moved on, or have other names than the model that was sampled. ``also`` are further fields
    of the source that must be the same.

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    weights = {} if model_fingerprint is None else {"model_fingerprint": model_fingerprint}
    wanted = {
        "tokenizer_fingerprint": tokenizer_fingerprint,
        "temperature": temperature,
        "dtype": dtype,
        **weights,
        **also,
    }
    require_source(place, found, found.source.model_copy(update=wanted))


def require_policy_of(place: Path, found: Manifest, source: Source, *, initial: bool) -> None:
    """``require_policy`` of a run that would draw ``source`` now.

    ``initial`` says that its weights are still the initial policy's.
    """
    require_policy(
        place,
        found,
        tokenizer_fingerprint=source.tokenizer_fingerprint,
        temperature=source.temperature,
        dtype=source.dtype,
        model_fingerprint=source.model_fingerprint if initial else None,
    )

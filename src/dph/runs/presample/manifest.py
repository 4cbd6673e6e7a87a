"""The manifest of stored answers: what a pool or a store was made from, and what it holds.

Both are answers of the initial policy in a directory with a ``manifest.json``. A pool holds graded
answers to the training problems and a split of those; a store holds answers to other prompts with
next-token distributions. Fields of one kind alone are left out of the other's file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from dph._base.files import read_json, sha256
from dph.errors import DataError, PoolError
from dph.recipe.section import WrongFinal
from dph.runs.directory import MANIFEST

FORMAT = 3
Kind = Literal["pool", "store"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """Inputs that decide the answers. Those of equal sources are equal."""

    model: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    prompts: str
    """Their origin: ``train``, ``unlabelled`` ..."""
    prompts_fingerprint: str
    chat: bool
    system_prompt: str
    answers: int
    """To each prompt. A pool has one more, the final one, which decides nothing."""
    top: int | Literal["all"] | None = None
    """Likeliest tokens whose log-probs are kept at each position; None where none are."""
    temperature: float
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    dtype: str
    seed: int
    engine: str = "torch"
    """Engine that drew them: engines draw other answers from the same seed."""
    environment: dict[str, Any] | None = None
    """Of trajectories: the most tokens of one; of a store also the class, its version and its
    settings, which of a pool stand in ``values``."""


class ValueSource(_Record):
    """Inputs that decide the values of answers: their comparer, and their verifier."""

    compared_by: str = ""
    """A verifier or a user-defined function; '' where answers are not compared."""
    compared_version: str = ""
    graded_by: str = ""
    """'' where answers are not graded."""
    graded_version: str = ""
    compared_settings: dict[str, Any] = {}
    graded_settings: dict[str, Any] = {}

    @field_validator("compared_settings", "graded_settings", mode="before")
    @classmethod
    def _as_the_manifest_will_say_it(cls, value: Any) -> Any:
        return json.loads(json.dumps(dict(value)))

    @classmethod
    def of(
        cls, *, graded: Mapping[str, Any], compared: Mapping[str, Any] | None = None
    ) -> "ValueSource":
        """Values that these verifiers give, by their identities (name, version, settings)."""
        kinds = {"graded": graded} if compared is None else {"graded": graded, "compared": compared}
        names = {"name": "by", "version": "version", "settings": "settings"}
        return cls(
            **{f"{kind}_{names[key]}": known[key] for kind, known in kinds.items() for key in names}
        )

    def covers(self, wanted: "ValueSource") -> bool:
        """Whether these values are those that ``wanted`` asks for, or more."""
        have, want = self.model_dump(), wanted.model_dump()
        return all(
            have[f"{kind}_{part}"] == want[f"{kind}_{part}"]
            for kind in ("compared", "graded")
            for part in ("by", "version", "settings")
            if want[f"{kind}_by"]
        )


class Rule(_Record):
    """Rule by which a pool is split."""

    threshold: int
    wrong_final: WrongFinal
    keep: int = 1
    """Correct answers of a near-perfect problem that are stored, the final sample first."""


class Counts(_Record):
    """Sizes, and what the answers came to; a share of nothing is None.

    Attributes:
        prompts: of a pool, the problems.
        tokens: of all answers.
        cut_off: answers that ended at ``max_tokens``.
        bytes_per_token: of all files, for each token of an answer.
        exploration: problems of a pool to explore.
        rehearsal: stored answers of a pool.
        discarded: problems of a pool that are neither explored nor rehearsed.
        ungradable: problems of a pool without a verdict.
        histogram: ``histogram[c]`` of the problems of a pool were solved c times, of those that
            could be graded.
        outcomes: how many answers of a pool came to which outcome.
        distributions: stored ones: answers that begin alike share them.
        prompts_that_agree: share of the prompts of which two answers or more agree.
        agreement: mean share of the other answers that agree with one.
        labelled: prompts with a gold answer.
        correct: share of the answers to those that are correct.
        agreed_wrong: of the labelled prompts that agree, the share whose largest class is wrong.
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
    distributions: int = 0
    prompts_that_agree: float | None = None
    agreement: float | None = None
    labelled: int = 0
    correct: float | None = None
    agreed_wrong: float | None = None


class Manifest(_Record):
    """The content of ``manifest.json``."""

    format: Literal[3]
    kind: Kind
    source: Source
    values: ValueSource | None = None
    """None where answers were neither compared nor graded."""
    rule: Rule | None = None
    """Of a pool."""
    counts: Counts
    files: dict[str, str]
    """SHA-256 of every other file, in hex."""


def read_manifest(place: Path, kind: Kind) -> Manifest:
    """Read the manifest of the pool or the store in ``place``.

    Raises:
        PoolError: it is missing, damaged, of the other kind or of an unknown format.
    """
    path = place / MANIFEST
    try:
        content = read_json(path)
    except DataError as error:
        raise PoolError(f"{place} is not a {kind}: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise PoolError(f"{path}: {kind} format {found!r} is unknown, this version reads {FORMAT}")
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise PoolError(f"{path} is damaged: {key}: {first['msg']}") from error
    if manifest.kind != kind:
        raise PoolError(f"{place} is a {manifest.kind}, not a {kind}")
    return manifest


def require_whole(place: Path, manifest: Manifest) -> None:
    """Compare every file with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    for name, expected in manifest.files.items():
        file = place / name
        if file.is_file() and sha256(file) == expected:
            continue
        how = "is not the file that was written (SHA-256 differs)" * file.is_file()
        raise PoolError(
            f"the {manifest.kind} {place} is damaged: {name} {how or 'is missing'}; remove the "
            f"{manifest.kind} and pre-sample again"
        )


# Whether stored answers are those that a run would draw.


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


def require_source(
    place: Path, found: Manifest, expected: Source, grading: ValueSource | None = None
) -> None:
    """Refuse answers that were drawn in another way, or graded by another verifier.

    ``grading`` is None where verdicts do not matter. The directory of the model does not either,
    because its fingerprint decides; nor does what drew, because stored log-probs are the training
    forward's.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    have, want = _facts(found.source, grading and found.values), _facts(expected, grading)
    if difference := first_difference(have, want):
        raise PoolError(
            f"the {found.kind} {place} does not fit this run: {difference}; pre-sample again into "
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
    """Refuse a pool that was split in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    have = found.rule.model_dump() if found.rule else {}
    if difference := first_difference(have, rule.model_dump()):
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

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    require_policy(
        place,
        found,
        tokenizer_fingerprint=source.tokenizer_fingerprint,
        temperature=source.temperature,
        dtype=source.dtype,
        model_fingerprint=source.model_fingerprint if initial else None,
    )

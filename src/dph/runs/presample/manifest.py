"""The manifest of a pool: what its answers were made from, what it holds, and what it lacks.

A pool that training cannot use is refused with what was found and the probable cause.
"""

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
from dph.records import Outcome
from dph.runs.directory import MANIFEST

FORMAT = 3


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """Inputs that determine the answers: equal sources give equal answers."""

    model: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    prompts: str
    """Always ``train``."""
    prompts_fingerprint: str
    chat: bool
    system_prompt: str
    answers: int
    """Answers to each prompt that decide its side; the final one comes on top of them."""
    temperature: float
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    dtype: str
    seed: int
    engine: str = "torch"
    """Engine that drew them: another engine draws other answers from the same seed."""
    environment: dict[str, Any] | None = None
    """Of trajectories: the largest number of tokens."""


class ValueSource(_Record):
    """The verifier of the answers."""

    graded_by: str
    graded_version: str
    graded_settings: dict[str, Any] = {}

    @field_validator("graded_settings", mode="before")
    @classmethod
    def _as_json(cls, value: Any) -> Any:  # as it will be read back
        return json.loads(json.dumps(dict(value)))

    @classmethod
    def of(cls, graded: Mapping[str, Any]) -> "ValueSource":
        """From the verifier's identity (name, version, settings)."""
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
    """Sizes of a pool, and the outcomes of its answers.

    Attributes:
        cut_off: answers that ended at ``max_tokens``.
        bytes_per_token: of all files, for each token of an answer.
        rehearsal: stored answers.
        discarded: problems that are neither explored nor rehearsed.
        ungradable: problems without a verdict.
        histogram: ``histogram[c]`` of the gradable problems were solved c times.
        outcomes: number of answers by outcome.
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

    ``grading`` is None if verdicts do not matter. The model's directory never matters, since its
    fingerprint decides; nor does the sampling engine, since stored log-probs are those of the
    training forward.
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

    Prompts, verdicts and rule do not matter. ``model_fingerprint`` is None if the weights have
    been trained since, or have other names than in the model that was sampled. ``also`` are
    further fields of the source that must be the same.

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    wanted = {
        "tokenizer_fingerprint": tokenizer_fingerprint,
        "temperature": temperature,
        "dtype": dtype,
        **({} if model_fingerprint is None else {"model_fingerprint": model_fingerprint}),
        **also,
    }
    require_source(place, found, found.source.model_copy(update=wanted))


def require_usable(path: Path, found: Manifest, *, rehearses: bool, explores: int) -> None:
    """Refuse a pool that holds too little for a run.

    ``explores`` is the number of problems that the run needs to explore; 0 if it takes them
    elsewhere.
    """
    counts, n = found.counts, found.source.answers
    if missing := shortage(counts, rehearses=rehearses, explores=explores):
        solved = ", ".join(f"{c} of {n}: {k}" for c, k in enumerate(counts.histogram) if k)
        raise PoolError(
            f"the pool {path} holds {missing}; problems by correct samples: {solved or 'none'}; "
            f"ungradable: {counts.ungradable}; outcomes of all answers: "
            f"{shares_text(counts.outcomes) or 'not known'}; likely cause: "
            f"{likely_cause(found, explores=explores)}"
        )


def shortage(counts: Counts, *, rehearses: bool = True, explores: int = 1) -> str:
    """Shortage of a split, such as ``no problem to explore``; '' if there is enough."""
    if counts.exploration < explores:
        if not counts.exploration:
            return "no problem to explore"
        return (
            f"{counts.exploration} problems to explore, fewer than train.problems_per_step = "
            f"{explores}"
        )
    return "no rehearsal sample" if rehearses and not counts.rehearsal else ""


def shares_text(outcomes: Mapping[str, int]) -> str:
    """Percentages, the largest first.

    >>> shares_text({"CORRECT": 1, "WRONG": 3})
    'WRONG 75.0%, CORRECT 25.0%'
    """
    total = sum(outcomes.values())
    ordered = sorted(outcomes.items(), key=lambda item: -item[1])
    return ", ".join(f"{outcome} {100 * count / total:.1f}%" for outcome, count in ordered)


def cut_off_share(counts: Counts) -> float | None:
    """The fraction of all answers that ``max_tokens`` cut off; None without answers."""
    total = sum(counts.outcomes.values())
    return counts.outcomes.get(Outcome.CUT_OFF, 0) / total if total else None


_MOST = 0.5
"""A failed split is blamed on an outcome that at least this share of the answers has."""
_CAUSES = {
    Outcome.BAD_GOLD: (
        "could not use the gold answer for {share} of the answers: ungradable.parquet says why"
    ),
    Outcome.CRASHED: "crashed on {share} of the answers: samples.parquet has the tracebacks",
    Outcome.TIMED_OUT: (
        "timed out on {share} of the answers: raise data.verifier_timeout, or make it faster"
    ),
    Outcome.NO_ANSWER: (
        "found no answer in {share} of the responses: the prompt must ask for the form that it "
        "reads"
    ),
    Outcome.INVALID: (
        "could not evaluate {share} of the answers: samples.parquet says why, one by one"
    ),
    Outcome.OVER_LIMIT: (
        "ran into its limits on {share} of the answers: samples.parquet says into which"
    ),
}


def likely_cause(found: Manifest, *, explores: int = 1) -> str:
    """Likely cause of a failed split, and a remedy."""
    counts, verifier = found.counts, f"the verifier {found.values.graded_by!r}"
    cut_off = cut_off_share(counts) or 0.0
    if cut_off >= _MOST:
        return (
            f"{100 * cut_off:.1f}% of the answers were cut off at sampling.max_tokens = "
            f"{found.source.max_tokens}: raise it, or make the model end its answers "
            f"(sampling.stop)"
        )
    graded = {name: count for name, count in counts.outcomes.items() if name != Outcome.CUT_OFF}
    total = sum(graded.values())
    if total and graded.get(Outcome.CORRECT) == total:
        return (
            f"{verifier} called every answer correct: either it accepts everything, or the "
            f"problems are too easy"
        )
    for outcome, cause in _CAUSES.items():
        if total and graded.get(outcome, 0) >= _MOST * total:
            return f"{verifier} {cause.format(share=f'{100 * graded[outcome] / total:.1f}%')}"
    return _cause_in_the_rule(found, explores)


def _cause_in_the_rule(found: Manifest, explores: int) -> str:
    """The cause if the answers were graded, some of them right and some wrong."""
    counts, n, threshold = found.counts, found.source.answers, found.rule.threshold
    if counts.prompts < explores:
        return f"there are only {counts.prompts} problems: lower train.problems_per_step"
    if counts.rehearsal:
        higher = f"raise presample.threshold, which is {threshold} of {n}, or " * (threshold < n)
        return f"the model masters too many of the problems: {higher}use harder ones"
    best = max((c for c, problems in enumerate(counts.histogram) if problems), default=0)
    if best >= threshold:
        return (
            "the final sample of every near-perfect problem was wrong: use more problems, or lower "
            f"presample.threshold, which is {threshold} of {n}"
        )
    if best:
        return (
            f"no problem was solved more than {best} of {n} times: lower presample.threshold, "
            f"which is {threshold}, use easier problems or a stronger model"
        )
    return (
        f"the verifier {found.values.graded_by!r} called none of the first {n} answers to any "
        f"problem correct: check that it accepts a right answer, or use easier problems"
    )

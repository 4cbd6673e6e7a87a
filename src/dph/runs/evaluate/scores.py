"""The scores of one set of problems, and their summary in evaluation.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int

from dph._base.files import atomic_path, read_json
from dph.errors import DataError
from dph.recipe import recipe_digest
from dph.records import Problem
from dph.runs.evaluate.intervals import RESAMPLES, bootstrap_mean
from dph.runs.evaluate.metrics import (
    RETENTION_K,
    Retention,
    effective_styles,
    pass_at_k_curve,
    require_k_fits,
    retention,
)
from dph.tasks.problems import problem_columns, problem_of_columns, problems_fingerprint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetScores:
    """Scores of a model on a set, problem by problem and sample by sample.

    ``greedy`` is None when no greedy answer was asked for. ``shares`` are the styles of all
    samples (not of the greedy answers), right or wrong; empty without a style classifier.
    ``cut_off`` is the share of all samples that ended at ``max_tokens``; None where it is not
    known.
    """

    problem_ids: tuple[str, ...]
    correct: Bool[np.ndarray, "problems samples"]
    rewards: Float[np.ndarray, "problems samples"]
    greedy: Bool[np.ndarray, "problems"] | None
    shares: Mapping[str, float]
    cut_off: float | None = None

    @property
    def samples(self) -> int:
        """Samples of each problem."""
        return int(self.correct.shape[1])

    @property
    def correct_counts(self) -> Int[np.ndarray, "problems"]:
        """Correct samples of each problem."""
        return np.asarray(self.correct.sum(axis=1))


def metric_values(scores: SetScores, ks: Sequence[int]) -> dict[str, Float[np.ndarray, "problems"]]:
    """Each metric's value for every problem: greedy (if there), mean, pass_at_<k>.

    ``mean`` is Mean@n, the mean reward, in which a verifier may give part of the points;
    greedy and Pass@k count CORRECT answers only.
    """
    values = {} if scores.greedy is None else {"greedy": scores.greedy.astype(np.float64)}
    values["mean"] = scores.rewards.mean(axis=1)
    curve = pass_at_k_curve(scores.samples, scores.correct_counts, sorted(set(ks)))
    return values | {f"pass_at_{k}": of_problem for k, of_problem in curve.items()}


def set_summary(
    scores: SetScores,
    *,
    ks: Sequence[int],
    seed: int,
    base: SetScores | None = None,
    retention_k: int = RETENTION_K,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The object of one set in evaluation.json (docs/files.md): fractions in [0, 1].

    None where nothing is known: greedy without a greedy answer, keep and explore without a base
    model, effective_styles without a style classifier.
    """
    values = metric_values(scores, ks)
    means = {name: float(of_problem.mean()) for name, of_problem in values.items()}
    intervals: dict[str, list[float] | None] = {"greedy": None}
    for name, of_problem in values.items():
        intervals[name] = list(bootstrap_mean(of_problem, seed=seed, resamples=resamples))
    kept = _retention(scores, base, retention_k)
    return {
        "problems": len(scores.problem_ids),
        "greedy": means.get("greedy"),
        "mean": means["mean"],
        "pass_at_k": {str(k): means[f"pass_at_{k}"] for k in sorted(set(ks))},
        "ci95": intervals,
        "cut_off": scores.cut_off,
        "keep": kept.keep,
        "explore": kept.explore,
        "keep_null": kept.keep_null,
        "explore_null": kept.explore_null,
        "styles": dict(scores.shares),
        "effective_styles": effective_styles(scores.shares) if scores.shares else None,
    }


def require_same_problems(a: SetScores, b: SetScores, *, name_a: str, name_b: str) -> None:
    """Refuse to compare scores of different problems, or of the same in another order."""
    if a.problem_ids == b.problem_ids:
        return
    for only, other, owner, lacking in ((a, b, name_a, name_b), (b, a, name_b, name_a)):
        missing = sorted(set(only.problem_ids) - set(other.problem_ids))
        if missing:
            raise DataError(
                f"{name_a} and {name_b} cannot be compared problem by problem: {len(missing)} of "
                f"{owner} are not in {lacking}, for example {missing[0]!r}"
            )
    at = next(
        i for i, (x, y) in enumerate(zip(a.problem_ids, b.problem_ids, strict=True)) if x != y
    )
    raise DataError(
        f"{name_a} and {name_b} list their problems in different orders: "
        f"at {at} one has {a.problem_ids[at]!r}, the other {b.problem_ids[at]!r}"
    )


def _retention(scores: SetScores, base: SetScores | None, k: int) -> Retention:
    if base is None:
        return Retention(keep=None, explore=None, keep_null=None, explore_null=None)
    require_same_problems(scores, base, name_a="the model", name_b="the base model")
    return retention(scores.correct, base.correct, k=k)


# evaluation.json: what was measured of one model.

# ``problems.parquet`` beside ``samples.parquet``: prompt and gold of every evaluated problem.
#
# Once a problem, not once an answer. A row is found by (set, problem_id).

PROBLEMS_SCHEMA = 1
PROBLEMS = pa.schema([(n, pa.string()) for n in ("set", "problem_id", "prompt", "answer")])
_DIGEST, _VERSION = b"dph.digest", b"dph.schema"


def keep_problems(path: Path, sets: Mapping[str, Sequence[Problem]]) -> None:
    """Write the problems of every set, unless they are there already."""
    digest = recipe_digest(
        {name: problems_fingerprint(sets[name]) for name in sets}, PROBLEMS_SCHEMA
    )
    if path.exists() and _metadata(path).get(_DIGEST) == digest.encode():
        return
    rows = [
        {"set": name, **problem_columns(problem)}
        for name, problems in sets.items()
        for problem in problems
    ]
    schema = PROBLEMS.with_metadata(
        {_DIGEST: digest.encode(), _VERSION: str(PROBLEMS_SCHEMA).encode()}
    )
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")


def read_kept_problems(path: Path) -> dict[tuple[str, str], Problem]:
    """The problems by set and id; none where there is no such file."""
    if not path.exists():
        return {}
    version = _metadata(path).get(_VERSION, b"none").decode()
    if version != str(PROBLEMS_SCHEMA):
        raise DataError(f"{path} has schema {version}, this version of dph reads {PROBLEMS_SCHEMA}")
    try:
        rows = pq.read_table(path).to_pylist()
        return {(row["set"], row["problem_id"]): problem_of_columns(row) for row in rows}
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _metadata(path: Path) -> Mapping[bytes, bytes]:
    try:
        return pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}; remove it and evaluate again") from error


SCHEMA = 2


def evaluation_document(
    model: str,
    samples: int,
    sets: Mapping[str, SetScores],
    base: Mapping[str, SetScores] | None,
    ks: Sequence[int],
    seed: int,
    *,
    retention_k: int = RETENTION_K,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The content of evaluation.json.

    ``base`` are the initial policy's scores on the same sets, for keep and explore; give a base
    model its own scores. None leaves keep and explore unknown.
    """
    for k in ks:
        require_k_fits(k, samples)
    summaries = {}
    for name, scores in sets.items():
        if scores.samples != samples:
            raise DataError(f"set {name!r} has {scores.samples} samples a problem, not {samples}")
        if base is not None and name not in base:
            raise DataError(f"the base model was not evaluated on set {name!r}")
        summaries[name] = set_summary(
            scores,
            ks=ks,
            seed=seed,
            base=base[name] if base is not None else None,
            retention_k=retention_k,
            resamples=resamples,
        )
    return {"schema": SCHEMA, "model": model, "samples": samples, "sets": summaries}


def read_evaluation(path: Path) -> dict[str, Any]:
    """The content of an evaluation.json."""
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("model"), str):
        raise DataError(f"{path} is not an evaluation: it does not name a model")
    if lacking := {"samples", "sets"} - content.keys():
        raise DataError(f"{path} is not an evaluation: it lacks {' and '.join(sorted(lacking))}")
    return content

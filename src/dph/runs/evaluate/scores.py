"""The scores of one set of problems, and their summary in evaluation.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from dph._base.files import read_json
from dph.errors import DataError
from dph.recipe import recipe_digest
from dph.records import Problem
from dph.runs.evaluate.intervals import Differences, bootstrap_mean
from dph.runs.evaluate.metrics import (
    RETENTION_K,
    Retention,
    effective_styles,
    pass_at_k,
    require_k_fits,
    retention,
)
from dph.runs.evaluate.tables import digest_of, read_table, write_table
from dph.tasks.problems import problem_columns, problem_of_columns, problems_fingerprint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetScores:
    """Scores of a model on an evaluation set, by problem and by sample.

    ``greedy`` is None if no greedy answers were requested. ``shares`` has each style's share of
    all samples, right or wrong, without greedy answers; empty without a style classifier.
    ``cut_off`` is the share of all samples that ended at ``max_tokens``; None if unknown.
    ``counts`` has the number of samples of each problem if these differ: the rest of a row is
    padding. ``bad_gold`` lists problems that could not be graded and so have no scores.
    """

    problem_ids: tuple[str, ...]
    correct: Bool[np.ndarray, "problems samples"]
    rewards: Float[np.ndarray, "problems samples"]
    greedy: Bool[np.ndarray, "problems"] | None
    shares: Mapping[str, float]
    cut_off: float | None = None
    counts: Int[np.ndarray, "problems"] | None = None
    bad_gold: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """Samples per problem; the maximum if these differ."""
        return int(self.correct.shape[1])

    @property
    def fewest_samples(self) -> int:
        """The minimum number of samples per problem."""
        return self.samples if self.counts is None else int(self.counts.min())

    @property
    def correct_counts(self) -> Int[np.ndarray, "problems"]:
        """Number of correct samples of each problem."""
        return np.asarray(self.correct.sum(axis=1))

    def only(self, problem_ids: Sequence[str]) -> "SetScores":
        """Scores of these problems only, in this order."""
        at = {each: row for row, each in enumerate(self.problem_ids)}
        rows = [at[each] for each in problem_ids]
        counts = None if self.counts is None else self.counts[rows]
        width = self.samples if counts is None else int(counts.max())
        return replace(
            self,
            problem_ids=tuple(problem_ids),
            correct=self.correct[rows, :width],
            rewards=self.rewards[rows, :width],
            greedy=None if self.greedy is None else self.greedy[rows],
            counts=None if counts is None or counts.min() == width else counts,
        )


def metric_values(scores: SetScores, ks: Sequence[int]) -> dict[str, Float[np.ndarray, "problems"]]:
    """Values of each metric by problem: greedy (if available), mean, pass_at_<k>.

    ``mean`` is Mean@n, the mean reward, which includes partial credit; greedy and Pass@k count
    only CORRECT answers.
    """
    values = {} if scores.greedy is None else {"greedy": scores.greedy.astype(np.float64)}
    counts = scores.samples if scores.counts is None else scores.counts
    rows = zip(scores.rewards, np.broadcast_to(counts, len(scores.rewards)), strict=True)
    values["mean"] = np.array([row[:count].mean() for row, count in rows])
    for k in sorted(set(ks)):
        values[f"pass_at_{k}"] = pass_at_k(counts, scores.correct_counts, k)
    return values


def differences(model: SetScores, base: SetScores, ks: Sequence[int]) -> Differences:
    """For each k, Pass@k of the model minus Pass@k of the base, problem by problem."""
    ours, theirs = metric_values(model, ks), metric_values(base, ks)
    return {k: ours[f"pass_at_{k}"] - theirs[f"pass_at_{k}"] for k in ks}


def retention_of(scores: SetScores, base: SetScores | None, k: int = RETENTION_K) -> Retention:
    """Keep and explore against ``base``; unknown without a base, or if sample counts vary."""
    if base is None or scores.counts is not None or base.counts is not None:
        return Retention()
    require_same_problems(scores, base, name_a="the model", name_b="the base model")
    return retention(scores.correct, base.correct, k=k)


def set_summary(
    scores: SetScores,
    *,
    ks: Sequence[int],
    seed: int,
    base: SetScores | None = None,
    retention_k: int = RETENTION_K,
) -> dict[str, Any]:
    """Entry of one set in evaluation.json (docs/files.md), with fractions in [0, 1].

    Unknown values are None: greedy without greedy answers, keep and explore without a base model,
    effective_styles without a style classifier.
    """
    values = metric_values(scores, ks)
    means = {name: float(of_problem.mean()) for name, of_problem in values.items()}
    intervals = {name: list(bootstrap_mean(each, seed=seed)) for name, each in values.items()}
    return {
        "problems": len(scores.problem_ids),
        "greedy": means.get("greedy"),
        "mean": means["mean"],
        "pass_at_k": {str(k): means[f"pass_at_{k}"] for k in sorted(set(ks))},
        "ci95": {"greedy": None} | intervals,
        "cut_off": scores.cut_off,
        **asdict(retention_of(scores, base, retention_k)),
        "styles": dict(scores.shares),
        "effective_styles": effective_styles(scores.shares) if scores.shares else None,
    }


def require_same_problems(a: SetScores, b: SetScores, *, name_a: str, name_b: str) -> None:
    """Refuse to compare scores of different problems, or of problems in a different order."""
    if a.problem_ids == b.problem_ids:
        return
    for only, other, owner, lacking in ((a, b, name_a, name_b), (b, a, name_b, name_a)):
        if missing := sorted(set(only.problem_ids) - set(other.problem_ids)):
            raise DataError(
                f"{name_a} and {name_b} cannot be compared problem by problem: {len(missing)} "
                f"problem(s) of {owner} are not in {lacking}, for example {missing[0]!r}"
            )
    pairs = zip(a.problem_ids, b.problem_ids, strict=True)
    at = next(i for i, (x, y) in enumerate(pairs) if x != y)
    raise DataError(
        f"{name_a} and {name_b} list their problems in different orders: "
        f"at position {at}, one has {a.problem_ids[at]!r}, the other {b.problem_ids[at]!r}"
    )


PROBLEMS_SCHEMA = 1
PROBLEMS = pa.schema([(n, pa.string()) for n in ("set", "problem_id", "prompt", "answer")])


def keep_problems(path: Path, sets: Mapping[str, Sequence[Problem]]) -> None:
    """Write problems.parquet, unless it is up to date: prompts and gold answers of all sets.

    It has one row per problem, not one per answer.
    """
    told = {name: problems_fingerprint(problems) for name, problems in sets.items()}
    digest = recipe_digest(told, PROBLEMS_SCHEMA)
    if digest_of(path) == digest:
        return
    rows = [
        {"set": name, **problem_columns(p)} for name, problems in sets.items() for p in problems
    ]
    table = pa.Table.from_pylist(rows, schema=PROBLEMS)
    write_table(path, table, digest=digest, schema=PROBLEMS_SCHEMA)


def read_kept_problems(path: Path) -> dict[tuple[str, str], Problem]:
    """Problems by set and id; empty if there is no such file."""
    if not path.exists():
        return {}
    rows = read_table(path, schema=PROBLEMS_SCHEMA).to_pylist()
    try:
        return {(row["set"], row["problem_id"]): problem_of_columns(row) for row in rows}
    except (KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


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
) -> dict[str, Any]:
    """Content of evaluation.json.

    ``base`` has the initial policy's scores on the same sets, for keep and explore; for the
    initial policy itself, pass its own scores. Without it, keep and explore are unknown.
    """
    for k in ks:
        require_k_fits(k, samples)
    summaries = {}
    for name, scores in sets.items():
        if scores.samples != samples:
            raise DataError(f"set {name!r} has {scores.samples} samples per problem, not {samples}")
        if base is not None and name not in base:
            raise DataError(f"the base model was not evaluated on set {name!r}")
        summaries[name] = set_summary(
            scores,
            ks=ks,
            seed=seed,
            base=base[name] if base is not None else None,
            retention_k=retention_k,
        )
    return {"schema": SCHEMA, "model": model, "samples": samples, "sets": summaries}


def read_evaluation(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("model"), str):
        raise DataError(f"{path} is not an evaluation: it does not name a model")
    if lacking := {"samples", "sets"} - content.keys():
        raise DataError(f"{path} is not an evaluation: it lacks {' and '.join(sorted(lacking))}")
    return content

"""``progress.parquet``: measurements during training, a row for each step, set and problem.

Steps come in order, sets in the order of the recipe, problems in the order of the set. The order is
part of the format, so the same run gives the same file. Step 0 is the initial policy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dph.errors import DataError
from dph.records import GradedCompletion, Outcome
from dph.runs.evaluate.metrics import style_shares
from dph.runs.evaluate.scores import SetScores, set_summary
from dph.runs.evaluate.tables import parts_by_set, read_table, write_table

_WEIGHTS = {
    "entropy": "compared_tokens",
    "reverse_kl": "compared_tokens",
    "forward_kl": "compared_tokens",
    "stored_reverse_kl": "stored_tokens",
    "stored_forward_kl": "stored_tokens",
}
"""Columns that are means over tokens, and the column with their number."""


def step_summary(table: pa.Table, *, ks: Sequence[int], seed: int) -> dict[str, dict[str, Any]]:
    """The ``set_summary`` of each set, and means over tokens, of the rows of one step.

    ``entropy``, ``reverse_kl``, ``forward_kl`` and the ``stored`` ones are nats a token, None if
    nothing was compared.
    """
    known = table.filter(pc.is_valid(pc.field("correct")))  # without ungradable problems
    scores = {name: _scores(rows) for name, rows in parts_by_set(known)}
    return {
        name: {
            **set_summary(scores[name], ks=ks, seed=seed),
            **{column: _token_mean(rows, column) for column in _WEIGHTS},
        }
        for name, rows in parts_by_set(table)
        if name in scores
    }


def step_metrics_of(summary: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """A step's summary as flat numbers: ``eval/<set>/<metric>``, intervals as ``_lo`` and ``_hi``.

    >>> step_metrics_of({"dev": {"greedy": 0.5, "ci95": {"greedy": [0.2, 0.8]}, "styles": {}}})
    {'eval/dev/greedy': 0.5, 'eval/dev/greedy_lo': 0.2, 'eval/dev/greedy_hi': 0.8}
    """
    found: dict[str, float | None] = {}
    for name, of_set in summary.items():
        for metric, value in _flat(of_set):
            key = f"eval/{name}/{metric}"
            found[key] = value
            if (interval := of_set["ci95"].get(metric)) is not None:
                found[f"{key}_lo"], found[f"{key}_hi"] = interval
    return found


def best_score(
    summary: Mapping[str, Mapping[str, Any]], by: tuple[str | None, str]
) -> float | None:
    """The score that ``evaluate.keep_best`` names: of a set, or the mean of all sets.

    None if nothing in it could be graded.
    """
    chosen, metric = by
    values = [
        value
        for name, of_set in summary.items()
        if chosen in (None, name)
        for found, value in _flat(of_set)
        if found == metric and value is not None
    ]
    return float(np.mean(values)) if values else None


def _flat(of_set: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    for metric, value in of_set.items():
        if metric == "pass_at_k":
            yield from ((f"pass_at_{k}", of_k) for k, of_k in value.items())
        elif metric == "styles":
            yield from ((f"style_{style}", share) for style, share in value.items())
        elif metric != "ci95" and not metric.startswith(("keep", "explore")):
            yield metric, value


def _scores(rows: pa.Table) -> SetScores:
    """The scores of a set in the rows of one step.

    A row has only the number of samples, of right ones, and their mean reward, which is all that
    Pass@k and Mean@k depend on: here the right samples come first.
    """
    counts, rewards = rows["correct"].to_numpy(), rows["reward"].to_numpy()
    samples, greedy = int(rows["samples"][0].as_py()), rows["greedy"]
    answers = [style for row in rows["styles"].to_pylist() for style, n in row for _ in range(n)]
    return SetScores(
        problem_ids=tuple(rows["problem_id"].to_pylist()),
        correct=np.arange(samples)[None, :] < counts[:, None],
        rewards=np.repeat(rewards[:, None], samples, axis=1),
        greedy=None if greedy.null_count else np.array(greedy.to_pylist(), dtype=bool),
        shares=style_shares(answers),
        cut_off=float(rows["cut_off"].to_numpy().sum() / (samples * len(rows))),
    )


def _token_mean(rows: pa.Table, column: str) -> float | None:
    known = rows.filter(pc.is_valid(pc.field(column)))
    weights = known[_WEIGHTS[column]].to_numpy()
    if not weights.sum():
        return None
    return float(np.average(known[column].to_numpy(), weights=weights))


SCHEMA = 1

PROGRESS = pa.schema(
    [
        ("step", pa.int32()),
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("samples", pa.int32()),
        ("correct", pa.int32()),
        ("reward", pa.float64()),
        ("greedy", pa.bool_()),
        ("cut_off", pa.int32()),
        ("styles", pa.map_(pa.string(), pa.int32())),
        *((name, pa.float64()) for name in _WEIGHTS),
        ("compared_tokens", pa.int32()),
        ("stored_tokens", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDistance:
    """Means over the tokens of a problem's answers (nats a token), and the number of tokens.

    ``entropy``, ``reverse_kl`` and ``forward_kl`` are on answers that the policy just drew, the
    ``stored`` ones on answers that the initial policy drew at step 0.
    """

    entropy: float
    reverse_kl: float
    forward_kl: float
    stored_reverse_kl: float
    stored_forward_kl: float
    compared_tokens: int
    stored_tokens: int


def progress_row(
    step: int,
    set_name: str,
    group: Sequence[GradedCompletion],
    greedy: GradedCompletion | None,
    compared: BaseDistance | None,
) -> dict[str, Any]:
    """The row of a problem; if its gold cannot be graded, correctness and reward are unknown."""
    answers = group if greedy is None else [*group, greedy]
    gradable = all(g.verdict.outcome is not Outcome.BAD_GOLD for g in answers)
    correct = [g.verdict.outcome is Outcome.CORRECT for g in group]
    known = {
        "correct": sum(correct),
        "reward": sum(g.verdict.reward for g in group) / len(group),
        "greedy": None if greedy is None else greedy.verdict.outcome is Outcome.CORRECT,
    }
    styles = Counter(g.style for g in group if g.style is not None)
    return {
        "step": step,
        "set": set_name,
        "problem_id": group[0].completion.problem_id,
        "samples": len(group),
        **(known if gradable else dict.fromkeys(known)),
        "cut_off": sum(not g.completion.finished for g in group),
        "styles": sorted(styles.items()),
        **{name: getattr(compared, name, None) for name in BaseDistance.__slots__},
    }


def read_progress_file(path: Path) -> pa.Table:
    """The rows of a ``progress.parquet``; none if there is no such file."""
    if not path.exists():
        return PROGRESS.empty_table()
    table = read_table(path, schema=SCHEMA)
    if not table.schema.equals(PROGRESS):
        raise DataError(
            f"{path} is not a progress file: it has the columns {', '.join(table.column_names)}"
        )
    return table


def write_progress_file(path: Path, table: pa.Table, *, digest: str) -> None:
    """Write all rows, whole or not at all; ``digest`` is that of the measurement's settings."""
    # Maps that were read or filtered have other inner names, which the file would show.
    again = pa.Table.from_pylist(table.to_pylist(), schema=PROGRESS)
    write_table(path, again, digest=digest, schema=SCHEMA)


def measured_steps(table: pa.Table) -> list[int]:
    steps: list[int] = table["step"].unique().to_pylist()
    return steps


def rows_up_to(table: pa.Table, step: int) -> pa.Table:
    return table.filter(pc.field("step") <= step)


def rows_of_step(table: pa.Table, step: int) -> pa.Table:
    return table.filter(pc.field("step") == step)

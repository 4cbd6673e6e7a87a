"""What a step's rows of ``progress.parquet`` say of each set: scores with intervals, and more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dph.runs.evaluate.scores import SetScores, set_summary
from dph.runs.evaluate.styles import style_shares

_WEIGHTS = {
    "entropy": "compared_tokens",
    "reverse_kl": "compared_tokens",
    "forward_kl": "compared_tokens",
    "stored_reverse_kl": "stored_tokens",
    "stored_forward_kl": "stored_tokens",
}
"""What is a mean over tokens, and the column that says over how many."""


def progress_scores(table: pa.Table) -> dict[str, SetScores]:
    """The scores of every set in the rows of one step, without ungradable problems.

    Of a problem's samples only their number, how many are right and their mean reward are kept,
    which is all that Pass@k and Mean@k depend on: the right ones stand first here.
    """
    known = table.filter(pc.is_valid(pc.field("correct")))
    return {name: _scores(rows) for name, rows in _by_set(known)}


def step_summary(table: pa.Table, *, ks: Sequence[int], seed: int) -> dict[str, dict[str, Any]]:
    """For each set what ``set_summary`` says, and means over tokens, of the rows of one step.

    ``entropy``, ``reverse_kl``, ``forward_kl`` and the ``stored`` ones are nats a token, None where
    nothing was compared.
    """
    scores = progress_scores(table)
    return {
        name: {
            **set_summary(scores[name], ks=ks, seed=seed),
            **{column: _token_mean(rows, column) for column in _WEIGHTS},
        }
        for name, rows in _by_set(table)
        if name in scores
    }


def step_metrics_of(summary: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """A step's summary as flat numbers: ``eval/<set>/<metric>``, intervals as ``_lo`` and ``_hi``.

    >>> step_metrics_of({"dev": {"greedy": 0.5, "ci95": {"greedy": [0.2, 0.8]}, "styles": {}}})
    {'eval/dev/greedy': 0.5, 'eval/dev/greedy_lo': 0.2, 'eval/dev/greedy_hi': 0.8}
    """
    found: dict[str, float | None] = {}
    for name, of_set in summary.items():
        flat: dict[str, float | None] = {}
        for metric, value in _flat(of_set):
            flat[metric] = value
            interval = of_set["ci95"].get(metric)
            if interval is not None:
                flat[f"{metric}_lo"], flat[f"{metric}_hi"] = interval
        found |= {f"eval/{name}/{metric}": value for metric, value in flat.items()}
    return found


def best_score(
    summary: Mapping[str, Mapping[str, Any]], by: tuple[str | None, str]
) -> float | None:
    """The score that ``evaluate.keep_best`` names: of a set, or the mean of all sets.

    None where nothing of it could be graded.
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


def _by_set(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    for name in table["set"].unique().to_pylist():
        yield name, table.filter(pc.field("set") == name)


def _scores(rows: pa.Table) -> SetScores:
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

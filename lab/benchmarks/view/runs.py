"""Evaluated runs of any size, made without a model: ``base`` and methods beside it.

Every number comes from the seed. Answers are statements after a few words of reasoning, nearly all
of them different, so that nothing is won by keeping equal texts once.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from dph._base.files import write_json, write_text
from dph.recipe import resolve_recipe, save_recipe
from dph.records import Outcome, Problem
from dph.runs.evaluate.samples_file import SAMPLES, comparable_scores, write_samples
from dph.runs.evaluate.scores import evaluation_document, keep_problems

METHODS = ("base", "dph_f", "dph_js", "grpo")
SET = "in_domain"
STYLES = np.array(["plain", "cte", "nested", "union"])
TEXT = (
    "first the rooms are joined with their hotels then those above the limit remain and of each "
    "group one row is kept since a guest may have booked twice before"
)
WORDS = np.array(TEXT.split())
LOST = 0.02
"""The share of the problems that GRPO never solves again."""


def make_runs(directory: Path, *, problems: int, samples: int, words: int = 40) -> int:
    """``base`` and three runs on the same problems; returns how many answers they hold."""
    directory.mkdir(parents=True)
    rows = [_problem(i) for i in range(problems)]
    base = None
    for seed, method in enumerate(METHODS):
        run = directory / method
        run.mkdir()
        table = _samples(seed, problems, samples, words)
        write_samples(run / "samples.parquet", table, digest=method)
        keep_problems(run / "problems.parquet", {SET: rows})
        scores = comparable_scores({method: table})[method]
        base = base or scores
        ks = (1, 2, 4, 8, samples)
        model = str(directory / "model")
        document = evaluation_document(
            model, samples, scores, base, ks, 0, retention_k=samples // 2
        )
        write_json(run / "evaluation.json", document)
        if method != "base":
            _write_training(directory, run, method)
    return len(METHODS) * problems * (samples + 1)


def _write_training(directory: Path, run: Path, method: str) -> None:
    table = {
        "name": method,
        "method": method,
        "model": {"path": str(directory / "model")},
        "data": {
            "train": str(directory / "train.jsonl"),
            "sets": {SET: {"path": "problems.jsonl"}},
        },
    }
    save_recipe(resolve_recipe(table), run / "recipe.toml")
    lines = (json.dumps(training_line(step)) + "\n" for step in range(1, 1001))
    write_text(run / "metrics.jsonl", "".join(lines))


def training_line(step: int) -> dict[str, float]:
    """A step's line of ``metrics.jsonl``."""
    return {
        "step": step,
        "reward": 1 - 0.5 / (1 + step / 100),
        "entropy": 0.3 / (1 + step / 200),
        "effective_styles": 1 + 2 / (1 + step / 300),
        "zero_variance": 0.2,
        "completion_tokens": 40.0,
        "seconds": 3.0,
    }


def _problem(place: int) -> Problem:
    return Problem(
        problem_id=f"q-{place:06d}",
        prompt=f"hotel ( rooms stars city ) | guest ( name hotel ) | rooms above {place} ->",
        answer={
            "gold_sql": f"SELECT rooms FROM hotel WHERE stars > {place}",
            "db_id": f"db{place % 40}",
        },
    )


def _samples(seed: int, problems: int, samples: int, words: int) -> pa.Table:
    rng = np.random.default_rng([seed, problems, samples])
    width = samples + 1
    chance = np.random.default_rng(problems).beta(0.6, 0.6, problems) ** (1 / (1 + seed))
    if seed == len(METHODS) - 1:
        chance[: round(LOST * problems)] = 0
    right = rng.random((problems, width)) < chance[:, None]
    styles = STYLES[np.minimum(rng.integers(0, 4, (problems, width)), 3 - seed % 3)].ravel()
    texts = pa.chunked_array([pa.array(part, pa.string()) for part in _texts(rng, right, words)])
    count = problems * width
    columns = {
        "set": pa.array(np.full(count, SET)),
        "problem_id": pa.array(np.repeat([f"q-{i:06d}" for i in range(problems)], width)),
        "sample_index": pa.array(np.tile(np.arange(-1, samples, dtype=np.int32), problems)),
        "text": texts,
        "tokens": pa.array(rng.integers(20, 90, count, dtype=np.int32)),
        "finished": pa.array(np.full(count, True)),
        "outcome": pa.array(np.where(right.ravel(), Outcome.CORRECT.value, Outcome.WRONG.value)),
        "reward": pa.array(right.ravel().astype(np.float64)),
        "reason": pa.array(np.where(right.ravel(), "", "2 distinct rows, the gold has 1")),
        "style": pa.array(styles),
    }
    return pa.table(columns).cast(SAMPLES)


def _texts(rng: np.random.Generator, right: np.ndarray, words: int) -> Iterator[list[str]]:
    """The answers, a thousand problems at a time."""
    for first in range(0, len(right), 1000):
        part = right[first : first + 1000]
        drawn = WORDS[rng.integers(0, len(WORDS), (part.size, words))]
        yield [
            f"{' '.join(chosen)}\nSELECT rooms FROM hotel WHERE stars {'>' if ok else '>='} "
            f"{first + i // part.shape[1]} -- {rng.integers(1_000_000)}"
            for i, (chosen, ok) in enumerate(zip(drawn, part.ravel(), strict=True))
        ]

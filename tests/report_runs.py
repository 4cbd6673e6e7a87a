"""Evaluated runs for reports, made without a model: GRPO loses a problem and its styles."""

import base64
import gzip
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import write_json, write_text
from dph.recipe import resolve_recipe, save_recipe
from dph.records import Completion, GradedCompletion, Outcome, Verdict
from dph.runs.directory import TOKENS_FILE
from dph.runs.evaluate.evaluate import TOKENS
from dph.runs.evaluate.samples_file import (
    TOKENS_SCHEMA,
    comparable_scores,
    samples_table,
    write_samples,
)
from dph.runs.evaluate.scores import evaluation_document
from dph.runs.evaluate.tables import write_table

SAMPLES = 8
STYLES = ("plain", "cte", "nested")
SETS = {"in_domain": 24, "cross_domain": 9}
LOST = "in_domain-0000"
HOSTILE_ID = "a/b?<b>\"'#&\u202e"
HOSTILE = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>",
    "[click](javascript:window.hit=1) </script></pre><svg onload=window.hit=1>",
    "left \u202e right \u200b zero \x1b[31m bell \x07 \u2066 end",
    "A" * 1_000_000,
    "$\\frac{<b>1</b>}{2}$ of $4 is \\[ \\boxed{\\frac{4}{2}} \\]",
)


def make_runs(
    directory,
    *,
    sets=SETS,
    samples=SAMPLES,
    hostile=False,
    seeds=(0,),
    details=False,
    methods=("dph_f", "grpo"),
):
    """``base`` and a run of each method in ``directory``, as a quickstart leaves them.

    With ``details`` the greedy answers of GRPO are kept token by token.
    """
    problems = {name: make_problems(name, count) for name, count in sets.items()}
    if hostile:
        row = {"problem_id": HOSTILE_ID, "prompt": HOSTILE[0], "gold_sql": HOSTILE[1]}
        problems["in_domain"].append(row)
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in problems.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write_text(directory / f"{name}.jsonl", text)
    base = write_evaluation(directory / "base", "base", problems, samples, None)
    for method in methods:
        for seed in seeds:
            run = directory / (method if len(seeds) == 1 else f"{method}_{seed}")
            write_evaluation(run, method, problems, samples, base, seed)
            save_recipe(recipe(directory, run.name, method, sets, seed), run / "recipe.toml")
            write_log(run / "metrics.jsonl", method, seed)
    if details:
        write_tokens(directory / "grpo")
    return directory


def make_problems(name, count):
    return [
        {
            "problem_id": f"{name}-{i:04d}",
            "prompt": f"hotel ( rooms stars ) | show rooms above {i} of {name} ->",
            "gold_sql": f"SELECT rooms FROM hotel WHERE stars > {i}",
            "kind": ("list", "aggregate")[i % 2],
        }
        for i in range(count)
    ]


def recipe(directory, name, method, sets, seed):
    return resolve_recipe(
        {
            "name": name,
            "method": method,
            "seed": seed,
            "model": {"path": str(directory / "base_model")},
            "data": {
                "train": str(directory / "train.jsonl"),
                "sets": {name: {"path": str(directory / f"{name}.jsonl")} for name in sets},
            },
        }
    )


def write_evaluation(run, method, problems, samples, base, seed=0):
    run.mkdir(parents=True)
    tables = []
    for name, rows in problems.items():
        for row in rows:
            greedy, *drawn = answers(name, row["problem_id"], method, samples, seed)
            tables += [samples_table(name, [[greedy]], greedy=True), samples_table(name, [drawn])]
    table = pa.concat_tables(tables)
    write_samples(run / "samples.parquet", table, digest=f"{method} {seed}")
    scores = comparable_scores({method: table})[method]
    document = evaluation_document(
        str(run.parent / "base_model" if base is None else run / "checkpoints/step_000040"),
        samples,
        scores,
        base or scores,
        (1, 2, 4, samples),
        0,
        retention_k=samples // 2,
    )
    write_json(run / "evaluation.json", document)
    return scores


def write_tokens(run):
    """Log-probs 0, -1, -2 ...; the initial policy is 1 nat below in every second token."""
    rows = [
        {
            "set": row["set"],
            "problem_id": row["problem_id"],
            "sample_index": -1,
            "token_ids": list(range(len(pieces))),
            "pieces": pieces,
            "logprobs": [-float(i) for i in range(len(pieces))],
            "ref_logprobs": [-float(i) - (1 if i % 2 else -1) for i in range(len(pieces))],
            "entropy": [0.25 * i for i in range(len(pieces))],
        }
        for row in pq.read_table(run / "samples.parquet").to_pylist()
        if row["sample_index"] == -1 and row["problem_id"] != HOSTILE_ID
        for pieces in [re.findall(r"\s*\S+", row["text"])]
    ]
    table = pa.Table.from_pylist(rows, schema=TOKENS)
    write_table(run / TOKENS_FILE, table, digest="", schema=TOKENS_SCHEMA)


def answers(name, problem_id, method, samples, seed):
    if problem_id == HOSTILE_ID:
        return [
            graded(problem_id, i, HOSTILE[max(i, 0) % len(HOSTILE)], False, "other")
            for i in range(-1, samples)
        ]
    place = int(problem_id[-4:])
    rng = np.random.default_rng([place, len(name), len(method), seed])
    chance = {"base": 0.9, "dph_f": 0.95}.get(method, 1.0) if place % 2 == 0 else 0.3
    found = []
    for i in range(-1, samples):
        right = bool(rng.random() < chance)
        if problem_id == LOST:
            right = method != "grpo"
        style = "cte" if method not in ("base", "dph_f") else STYLES[int(rng.integers(3))]
        found.append(graded(problem_id, i, statement(style, place, right), right, style))
    return found


def statement(style, place, right):
    where = f"WHERE stars {'>' if right else '>='} {place}"
    return {
        "plain": f"SELECT rooms FROM hotel {where}",
        "cte": f"WITH c AS ( SELECT * FROM hotel {where} ) SELECT rooms FROM c",
        "nested": f"SELECT rooms FROM ( SELECT * FROM hotel {where} )",
    }[style]


def graded(problem_id, index, text, right, style):
    return GradedCompletion(
        completion=Completion(
            problem_id=problem_id,
            sample_index=index,
            token_ids=tuple(range(len(text.split()))),
            logprobs=(0.0,) * len(text.split()),
            finished=True,
            text=text,
        ),
        verdict=Verdict(
            outcome=Outcome.CORRECT if right else Outcome.WRONG,
            reward=float(right),
            reason="" if right else "2 distinct rows, the gold has 1",
        ),
        style=style,
    )


def write_log(path, method, seed, steps=40):
    rng = np.random.default_rng([len(method), seed])
    fall = 0.1 if method == "dph_f" else 0.9
    rows = [
        {
            "step": step,
            "reward": 0.5 + 0.4 * step / steps + 0.03 * rng.standard_normal(),
            "entropy": 0.2 * (1 - fall * step / steps) + 0.005 * rng.standard_normal(),
            "effective_styles": 3 - 1.9 * fall * step / steps,
            "zero_variance": 0.2 + 0.6 * step / steps,
            "divergence": 0.002 * step / steps if method == "dph_f" else 0.0,
            "clipped_low": 0.001,
            "completion_tokens": 15 + rng.standard_normal(),
            "tokens": 4000,
            "seconds": 4.0,
        }
        for step in range(1, steps + 1)
    ]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def unpacked(letters):
    """The value that the page has packed."""
    return json.loads(gzip.decompress(base64.b64decode(letters)))

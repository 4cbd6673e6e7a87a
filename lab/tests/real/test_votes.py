"""The vote of the real world: what is counted in a store, and that rows are kept."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from dph.records import Problem
from dph.runs.presample.manifest import Source, ValueSource
from dph.runs.presample.stores.groups import StoredGroup, groups_table
from dph.runs.presample.stores.making import sizes
from dph.runs.presample.stores.store import write_store
from dph.runs.presample.stores.values import (
    agreement_counts,
    valued,
    values_by_prompt,
    values_table,
)
from lab.benchmarks.real.votes import (
    ROWS,
    STUDY,
    gains_table,
    read_votes,
    result,
    votes_of,
    votes_table,
)

# The first prompt's vote, 9 of two answers, is right; the second's, 7, is wrong though half of its
# answers are right; the third has no two answers that agree. Of the part "neither" there is one.
PROMPTS = (
    ("across-0", "4 + 5", "across", (" 9\n", " 9", " 8\n", " 7\n"), (0, 0, 1, 2)),
    ("across-1", "10 - 2", "across", (" 7\n", " 7\n", " 8\n", " 6\n"), (0, 0, 1, 2)),
    ("across-2", "1 + 1", "across", (" 2\n", " 3\n", " 4\n", " 5\n"), (0, 1, 2, 3)),
    ("neither-0", "7 - 12", "neither", (" -5\n", " 5\n", " -5\n", " 5\n"), (0, 1, 0, 1)),
)


def group(problem_id, question, part, texts, cut_off=()):
    """Answers of one token each."""
    count = len(texts)
    return StoredGroup(
        problem=Problem(problem_id=problem_id, prompt=question, answer={"part": part}),
        prompt_ids=(9,),
        texts=tuple(texts),
        finished=tuple(index not in cut_off for index in range(count)),
        completions=tuple((index,) for index in range(count)),
        ref_logprobs=((-math.log(count),),) * count,
        token_ids=(tuple(range(count)),),
        logprobs=(np.log(np.full(count, 1 / count)),),
        log_tails=(-math.inf,),
    )


def write(path, prompts, cut_off=()):
    groups = [group(*row[:4], cut_off=cut_off) for row in prompts]
    values = values_table({row[0]: valued(row[4], None, answers=4) for row in prompts})
    table = groups_table(groups)
    source = Source(
        model="m",
        model_fingerprint="f",
        tokenizer_fingerprint="t",
        prompts="unlabelled",
        prompts_fingerprint="p",
        chat=False,
        system_prompt="",
        answers=4,
        top=8,
        temperature=1.0,
        top_p=1.0,
        max_tokens=8,
        stop_token_ids=(1,),
        dtype="float32",
        seed=1,
    )
    write_store(
        path,
        source=source,
        groups=[table],
        values=values,
        value_source=ValueSource(compared_by="number", compared_version="1"),
        about={**sizes([table]), **agreement_counts(values_by_prompt(values))},
    )
    return path


def test_a_vote_is_right_where_most_answers_are(tmp_path):
    store = write(tmp_path / "seed_7" / "stores" / "broad", PROMPTS)
    across, neither = votes_of(store)
    assert (across["seed"], across["part"], across["prompts"]) == (7, "across", 3)
    assert across["right"] == pytest.approx((2 + 1 + 1) / 12)
    assert across["consensus"] == pytest.approx(2 / 3)
    assert across["consensus_right"] == pytest.approx(1 / 2)
    assert (neither["prompts"], neither["right"]) == (1, 0.5)
    assert neither["consensus_right"] == 1.0  # two numbers have two votes: the first counts


def test_an_answer_that_was_cut_off_is_not_right(tmp_path):
    store = write(tmp_path / "seed_7" / "stores" / "broad", PROMPTS[:1], cut_off=(1,))
    (row,) = votes_of(store)
    assert row["right"] == pytest.approx(1 / 4)


def test_without_a_consensus_nothing_is_said_of_it(tmp_path):
    store = write(tmp_path / "seed_7" / "stores" / "broad", PROMPTS[2:3])
    (row,) = votes_of(store)
    assert (row["consensus"], row["consensus_right"]) == (0.0, None)


def test_the_table_has_a_line_for_each_model_and_part(tmp_path):
    shared = {"part": "across", "consensus": 1.0, "model_sha256": "f"}
    rows = [
        {**shared, "seed": 1, "answers_of": "base", "right": 0.1, "consensus_right": 0.2},
        {**shared, "seed": 2, "answers_of": "base", "right": 0.3, "consensus_right": 0.2},
        {**shared, "seed": 1, "answers_of": "rkl", "right": 0.5, "consensus_right": None},
    ]
    lines = votes_table(rows).splitlines()
    # 12.7062 * sqrt(0.02) / sqrt(2) = 1.2706, in per cent
    assert lines[2] == "| base | across | 20.0 ± 127.1 | 100.0 ± 0.0 | 20.0 ± 0.0 | 2 |"
    assert lines[3] == "| rkl | across | 50.0 | 100.0 | - | 1 |"
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert list(read_votes(path).values()) == rows
    assert read_votes(tmp_path / "none.jsonl") == {}


def test_on_the_tests_a_vote_is_compared_with_the_greedy_answer_of_the_same_model():
    rows = pq.read_table(ROWS.parent / "study.parquet").to_pylist()

    def mean(metric, k):
        key = ("base", "in_domain", metric, k)
        own = [r for r in rows if (r["method"], r["set"], r["metric"], r["k"]) == key]
        by_seed = {r["seed"]: r["value"] for r in own if r["seed"] >= 800}
        assert len(by_seed) == 8
        return sum(by_seed.values()) / 8

    told = 100 * (mean("maj_at_k", 16) - mean("greedy", None))
    cells = next(
        line.split(" | ")
        for line in gains_table(STUDY, ROWS.parent).splitlines()
        if line.startswith("| base |")
    )
    assert cells[1].startswith(f"{told:+.1f} ± ")
    assert cells[-1] == "8 |"


@pytest.mark.parametrize("question", ["19 * 63", "19 + 63 + 1", "minutes"])
def test_a_question_that_is_neither_is_named(question):
    with pytest.raises(ValueError, match="neither a sum nor a difference"):
        result(question)

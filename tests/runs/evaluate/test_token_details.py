import logging

import pytest

from dph.model.forward.scorer import ComparedTokens
from dph.runs.evaluate.evaluate import evaluate
from dph.runs.evaluate.samples_file import read_token_details
from dph.runs.evaluate.token_details import TokenReader, keep_token_details
from runs.evaluate.digits import CountingSampler


def reader(calls=None):
    def compare(prompts, completions):
        if calls is not None:
            calls.append(len(prompts))
        return [
            ComparedTokens(
                logprobs=(-0.5,) * len(ids),
                ref_logprobs=(-0.25,) * len(ids),
                entropy=(1.5,) * len(ids),
                reverse_kl=(0.0,) * len(ids),
                forward_kl=(0.0,) * len(ids),
            )
            for ids in completions
        ]

    return TokenReader(compare=compare, piece=lambda token: f"<{token}>")


@pytest.fixture
def evaluated(tmp_path, make_set):
    sets = [make_set(problems=70), make_set("more", problems=3)]
    table = evaluate(tmp_path / "samples.parquet", sets, model="m", samples=4, seed=1)
    return sets, table


def keep(path, evaluated, **changes):
    sets, table = evaluated
    settings = {"samples": 2, "seed": 1, "digest": "d", **changes}
    keep_token_details(path, sets, table, settings.pop("reader", reader()), **settings)


def test_the_first_samples_and_the_greedy_answer_are_kept_token_by_token(tmp_path, evaluated):
    path = tmp_path / "tokens.parquet"
    keep(path, evaluated)
    rows = read_token_details(path).to_pylist()
    assert len(rows) == 73 * 3
    assert [row["sample_index"] for row in rows[:3]] == [-1, 0, 1]
    graded = {
        (row["set"], row["problem_id"], row["sample_index"]): row["tokens"]
        for row in evaluated[1].to_pylist()
    }
    for row in rows:
        length = graded[row["set"], row["problem_id"], row["sample_index"]]
        assert row["token_ids"] == [1] * length
        assert row["pieces"] == ["<1>"] * length
        assert row["entropy"] == [1.5] * length
        assert (row["logprobs"], row["ref_logprobs"]) == ([-0.5] * length, [-0.25] * length)


def test_a_finished_file_is_left_and_another_digest_makes_it_again(tmp_path, evaluated):
    path, calls = tmp_path / "tokens.parquet", []
    for digest in ("d", "d", "e"):
        keep(path, evaluated, reader=reader(calls), digest=digest)
    assert calls == 2 * [3 * 64, 3 * 6, 3 * 3]  # two chunks of the first set, one of the second


def test_a_killed_call_goes_on_with_the_chunk_it_was_at(tmp_path, evaluated):
    path, calls = tmp_path / "tokens.parquet", []
    keep(tmp_path / "whole.parquet", evaluated)
    sets, _ = evaluated
    for chosen in sets:
        chosen.draw.sampler.calls = 0
    sets[0].draw.sampler.fail_at_call = 3  # the greedy answers of the second chunk
    with pytest.raises(RuntimeError, match="killed"):
        keep(path, evaluated)
    sets[0].draw.sampler.fail_at_call = None
    keep(path, evaluated, reader=reader(calls))
    assert calls == [3 * 6, 3 * 3]
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_answers_that_came_out_otherwise_are_left_out_and_counted(tmp_path, evaluated, caplog):
    path = tmp_path / "tokens.parquet"
    with caplog.at_level(logging.WARNING):
        keep(path, evaluated, seed=2)  # other draws than those that were graded
    rows = read_token_details(path).to_pylist()
    texts = {
        (row["set"], row["problem_id"], row["sample_index"]): row["text"]
        for row in evaluated[1].to_pylist()
    }
    sampler = CountingSampler()
    draw = evaluated[0][0].draw
    for row in rows:
        if row["sample_index"] >= 0:
            again = sampler._draw(row["problem_id"], row["sample_index"], draw.parameters, 2)
            assert again.text == texts[row["set"], row["problem_id"], row["sample_index"]]
    (record,) = caplog.records
    assert f"{73 * 3 - len(rows)} of {73 * 3} answers differed" in record.message

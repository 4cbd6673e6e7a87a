import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dph.cli.run import BAR_WIDTH, bar_chart


def test_the_json_output_is_one_document(dph, example, tmp_path):
    code, out, err = dph("presample", example, "--out", tmp_path / "run", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["problems"] == 12
    assert content["exploration"] + content["rehearsal"] + content["discarded"] == 12
    assert sum(content["histogram"]) == 12
    assert "pre-sampling: 108/108 samples" in err


def test_the_default_directory_is_runs_and_the_name(dph, example, tmp_path):
    assert dph("presample", example, "--set", "name=mine")[0] == 0
    assert (tmp_path / "runs" / "mine" / "pool").is_dir()


def test_another_threshold_draws_nothing_and_says_so(dph, example, tmp_path):
    words = ("presample", example, "--out", tmp_path / "run")
    assert dph(*words)[0] == 0
    code, out, err = dph(*words, "--set", "presample.threshold=7")
    assert code == 0
    assert "threshold 6 -> 7), nothing is drawn" in err
    assert "pre-sampling" not in err
    assert "12 problems:" in out
    manifest = json.loads((tmp_path / "run" / "pool" / "manifest.json").read_text())
    assert manifest["rule"]["threshold"] == 7


def test_the_share_of_cut_off_answers_stands_in_the_summary(dph, document, example, tmp_path):
    words = ("presample", example, "--out", tmp_path / "run", "--set", "sampling.max_tokens=1")
    code, out, _ = dph(*words)
    assert code == 0
    content = document(*words)
    cut_off = content["outcomes"]["CUT_OFF"]
    share = f"{100 * cut_off / 108:.1f}%"
    assert cut_off > 90  # some answers are an end of sequence and nothing else
    assert content["cut_off"] == cut_off / 108
    assert content["shortage"].startswith(f"no rehearsal sample: {share} of the answers")
    assert f"{share} of 108 answers were cut off at max_tokens = 1" in out
    assert f"there is no rehearsal sample\noutcomes of all answers: CUT_OFF {share}" in out
    assert f"likely cause: {share} of the answers were cut off" in out
    assert "raise it" in out


def test_ungradable_problems_have_a_line_and_a_listing(dph, example, tmp_path):
    (example.parent / "verifier.py").write_text(
        "from dph import Outcome, Verdict\n\n\n"
        "def grade(response, problem):\n"
        "    if problem.problem_id == 'sum-01':\n"
        "        return Verdict(outcome=Outcome.BAD_GOLD, reward=0.0, reason='no such word')\n"
        "    return response.split()[-1:] == [problem.answer['answer']]\n"
    )
    code, out, _ = dph("presample", example, "--out", tmp_path / "run")
    assert code == 0
    assert "\n1 ungradable (the gold answer cannot be graded" in out
    rows = pq.read_table(tmp_path / "run" / "pool" / "ungradable.parquet").to_pylist()
    assert rows == [{"problem_id": "sum-01", "outcome": "BAD_GOLD", "reason": "no such word"}]


def test_problems_that_are_solved_sometimes_are_written_with_their_rate(dph, example, tmp_path):
    run, target = tmp_path / "run", tmp_path / "explore.jsonl"
    code, out, _ = dph("presample", example, "--out", run, "--write", target, "--right", "1-7")
    assert code == 0
    graded = pq.read_table(run / "pool" / "samples.parquet").to_pylist()
    graded = [row for row in graded if row["sample_index"] < 8]  # the ninth decides on rehearsal
    correct = Counter(row["problem_id"] for row in graded if row["outcome"] == "CORRECT")
    drawn = Counter(row["problem_id"] for row in graded)
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert {row["problem_id"]: row["correct"] for row in rows} == {
        key: count for key, count in correct.items() if 1 <= count <= 7
    }
    assert all(row["pass_rate"] == row["correct"] / row["samples"] for row in rows)
    assert all(row["samples"] == drawn[row["problem_id"]] for row in rows)
    assert f"{len(rows)} problems with 1 to 7 right answers -> {target}" in out
    again = tmp_path / "again.parquet"
    assert dph("presample", example, "--out", run, "--write", again, "--right", "1-7")[0] == 0
    assert pq.read_table(again).to_pylist() == rows


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--write", "x.txt"), "--write takes a .jsonl or .parquet file, got x.txt"),
        (("--write", "x.jsonl", "--right", "3-2"), "0 <= LEAST <= MOST <= 8"),
        (("--write", "x.jsonl", "--right", "some"), "got 'some'"),
        (("--right", "1-6"), "--right goes with --write or --write-hf"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_first(refusal, example, tmp_path, words, said):
    assert said in refusal("presample", example, "--out", tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


def test_a_data_set_directory_is_written(dph, refusal, example, tmp_path):
    datasets = pytest.importorskip("datasets")
    target = tmp_path / "explore"
    words = ("presample", example, "--out", tmp_path / "run", "--write-hf", target)
    assert dph(*words, "--right", "0-8")[0] == 0
    assert len(datasets.load_from_disk(str(target))) == 12
    (tmp_path / "mine").mkdir()
    assert "already exists and is not a data set" in refusal(*words[:-1], tmp_path / "mine")


def test_the_longest_bar_has_the_full_width_and_no_count_disappears():
    lines = bar_chart(["0", "1", "2"], [1000, 0, 1]).splitlines()
    assert [line.count("#") for line in lines] == [BAR_WIDTH, 0, 1]


def test_small_counts_are_one_mark_each():
    assert [line.count("#") for line in bar_chart(["0", "1"], [3, 5]).splitlines()] == [3, 5]

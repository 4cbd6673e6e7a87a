import json

import pyarrow.parquet as pq

from dph.cli.display.pool import BAR_WIDTH, bar_chart


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


def test_the_share_of_cut_off_answers_stands_in_the_summary(dph, example, tmp_path):
    words = ("presample", example, "--out", tmp_path / "run", "--set", "sampling.max_tokens=1")
    code, out, _ = dph(*words)
    assert code == 0
    content = json.loads(dph(*words, "--json")[1])
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


def test_the_longest_bar_has_the_full_width_and_no_count_disappears():
    lines = bar_chart(["0", "1", "2"], [1000, 0, 1]).splitlines()
    assert [line.count("#") for line in lines] == [BAR_WIDTH, 0, 1]


def test_small_counts_are_one_mark_each():
    assert [line.count("#") for line in bar_chart(["0", "1"], [3, 5]).splitlines()] == [3, 5]

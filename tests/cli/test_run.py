import json
import os
import signal
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dph.cli.run import BAR_WIDTH, bar_chart
from dph.recipe.keys import LEFT
from dph.runs import training_stage as stage


def test_someones_own_task_runs_from_pool_to_evaluation_and_what_is_done_is_kept(
    dph, example, tmp_path
):
    run = tmp_path / "run"
    few = ("evaluate.samples=4", "evaluate.k=[1, 4]", "evaluate.retention_k=2")
    words = ("run", example, "--out", run, *(w for setting in few for w in ("--set", setting)))
    code, out, err = dph(*words, "--json")
    content = json.loads(out)
    assert code == 0, err
    assert content["pool"] is not None
    assert content["base"]["sets"]["train"]["keep"] == content["base"]["sets"]["train"]["keep_null"]
    assert content["training"]["step"] == 4
    assert content["evaluation"]["sets"]["train"]["problems"] == 12
    assert (run / "recipe.toml").is_file()
    assert dph(*words, "--json")[1] == out
    code, out, err = dph(*words)
    assert (code, "pass@4" in out, "training" in err) == (0, True, False)


@pytest.fixture
def interrupt(monkeypatch):
    """Send a signal to this process when a step of training is done."""
    note = stage._note

    def by(number):
        def send(metrics):
            os.kill(os.getpid(), number)
            return note(metrics)

        monkeypatch.setattr(stage, "_note", send)

    return by


def test_an_interrupted_run_is_not_evaluated(dph, example, tmp_path, interrupt):
    interrupt(signal.SIGTERM)
    code, out, err = dph("run", example, "--set", "method=grpo", "--out", tmp_path / "run")
    assert code == 130
    assert "checkpoint after 1 steps" in out
    assert "stopped after step 1" in err
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_training_leaves_a_checkpoint_and_says_where(dph, example, tmp_path):
    run = tmp_path / "run"
    code, out, err = dph("train", example, "--set", "method=grpo", "--out", run, "--json")
    content = json.loads(out)
    assert code == 0
    assert content["step"] == 4
    assert not content["stopped"]
    assert (run / "checkpoints" / "step_000004" / "config.json").is_file()
    assert "training grpo: 4/4 steps" in err
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_ends_at_a_checkpoint_and_says_how_to_go_on(
    dph, example, tmp_path, monkeypatch, interrupt
):
    interrupt(signal.SIGINT)
    words = ("train", example, "--out", tmp_path / "run", "--set", "method=grpo")
    code, out, err = dph(*words)
    assert code == 130
    assert "checkpoint after 1 steps" in out
    assert "stopped after step 1, everything is saved\n" in err
    assert "the same command continues" in err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    code, out, _ = dph(*words)
    assert code == 0
    assert "checkpoint after 4 steps" in out


@pytest.mark.slow
def test_a_changed_verifier_file_is_named_and_can_be_accepted(
    dph, refusal, example, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(example.parent)  # before those that other tests left on the path
    own_verifier = example.parent / "verifier.py"
    words = ("train", example, "--out", tmp_path / "run", "--set", "method=grpo")
    assert dph(*words, "--set", "train.steps=2")[0] == 0
    own_verifier.write_text(own_verifier.read_text() + "\n# mended\n")
    said = refusal(*words)
    assert "verifier.py" in said
    assert "changed" in said
    assert "--accept-verifier" in said
    code, out, err = dph(*words, "--accept-verifier")
    assert code == 0, err
    assert "checkpoint after 4 steps" in out
    assert dph(*words)[0] == 0


@pytest.mark.parametrize("left", ["stores", "consolidation"])
def test_a_run_that_only_an_older_version_reads_is_refused_by_one_message(
    dph, example, tmp_path, left
):
    old = tmp_path / "run" / left
    old.mkdir(parents=True)
    (old.parent / "metrics.jsonl").write_text('{"step": 1}\n')
    before = sorted(old.parent.rglob("*"))
    for words in (("train", example, "--out", old.parent), ("compare", old.parent)):
        code, _, err = dph(*words)
        assert (code, LEFT.format(f"the directory {old}") in " ".join(err.split())) == (2, True)
    assert sorted(old.parent.rglob("*")) == before


def test_rows_are_cut_at_their_lengths_so_the_pad_token_changes_no_weights(dph, example, tmp_path):
    settings = ("method=grpo", "train.steps=2", "train.shared_prompts=never")
    weights = []
    for pad in ("<pad>", None):
        path = example.parent / "model" / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": pad}))
        run = tmp_path / str(pad)
        code, _, err = dph("train", example, "--out", run, settings=settings)
        assert code == 0, err
        weights.append((run / "checkpoints" / "step_000002" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


SMALL = ["method=grpo", "train.steps=1", "train.problems_per_step=2", "evaluate.samples=2"]
WORDS = [word for setting in SMALL for word in ("--set", setting)]
ALWAYS_WRONG = "def grade(response, problem):\n    return False\n"


def test_a_recipe_and_the_one_that_its_run_saves_find_their_modules_from_anywhere(
    dph, refusal, example, tmp_path, monkeypatch
):
    """The working directory has other modules of the same names."""
    (example.parent / "verifier.py").write_text("def grade(response, problem):\n    return True\n")
    (example.parent / "ways.py").write_text("def style(response):\n    return 'mine'\n")
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    (elsewhere / "verifier.py").write_text(ALWAYS_WRONG)
    (elsewhere / "ways.py").write_text("def style(response):\n    return 'other'\n")
    monkeypatch.chdir(elsewhere)
    words = ("run", example, "--out", run, *WORDS, "--set", "data.styles=ways:style", "--json")
    code, out, err = dph(*words)
    assert code == 0, err
    assert json.loads(out)["evaluation"]["sets"]["train"]["mean"] == 1.0
    assert str(example.parent) in (run / "recipe.toml").read_text()
    before = (run / "samples.parquet").read_bytes()
    (run / "verifier.py").write_text(ALWAYS_WRONG)
    code, out, err = dph("evaluate", run / "recipe.toml", "--out", run, "--json")
    assert code == 0, err
    found = json.loads(out)["sets"]["train"]
    assert (found["mean"], found["styles"]) == (1.0, {"mine": 1.0})
    assert (run / "samples.parquet").read_bytes() == before  # nothing was drawn or graded again
    assert dph("train", run / "recipe.toml", "--out", run)[0] == 0
    # Without its verifier it takes no other.
    (example.parent / "verifier.py").unlink()
    assert "cannot import 'verifier'" in refusal("evaluate", run / "recipe.toml", "--out", run)


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
    words = ("--out", tmp_path / "run", "--write", tmp_path / "all.jsonl", "--right", "0-8")
    assert dph("presample", example, *words)[0] == 0
    written = (tmp_path / "all.jsonl").read_text()
    assert '"sum-00"' in written
    assert '"sum-01"' not in written


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
        (("--write", "gone/x.jsonl"), "there is no directory"),
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

"""A finished run consolidated from the command line: forecast, run of its own, refusals."""

import json

import pytest

FEW = ("--set", "stores.after.answers=4", "--set", "consolidation.updates=2")
FEW += ("--forecast-prompts", "6")


@pytest.fixture
def task(example):
    """The example with another four of its problems for evaluation than it trains on."""
    lines = (example.parent / "problems.jsonl").read_text().splitlines()
    (example.parent / "dev.jsonl").write_text("\n".join(lines[:4]) + "\n")
    unlabelled = example.parent / "unlabelled.jsonl"
    rows = [json.loads(line) for line in lines]
    unlabelled.write_text(
        "".join(
            json.dumps({"problem_id": f"u{i}", "prompt": f"{row['prompt']} {row['prompt']}"}) + "\n"
            for i, row in enumerate(rows)
        )
    )
    text = example.read_text().replace('"verifier:grade"', '"exact"')
    example.write_text(text.replace('sets.train = "problems.jsonl"', 'sets.dev = "dev.jsonl"'))
    return example


@pytest.fixture
def trained(dph, task, tmp_path):
    run = tmp_path / "run"
    learns = ("--set", "method=grpo", "--set", "train.learning_rate=0.01")
    code, _, err = dph("run", task, "--out", run, *learns)
    assert code == 0, err
    return run


@pytest.fixture
def prompts(task):
    return task.parent / "unlabelled.jsonl"


def contents(directory):
    return {p: p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_any_run_is_consolidated_beside_itself(dph, trained, prompts):
    before = contents(trained)
    code, out, err = dph("consolidate", trained, "--prompts", prompts, *FEW)
    assert code == 0, err
    assert contents(trained) == before
    after = trained.with_name("run-consolidated")
    assert f"run: {after}" in out
    assert "to come: 48 answers to 12 prompts" in err
    assert (after / "checkpoints" / "step_000002" / "config.json").is_file()
    assert dph("compare", trained, after)[0] == 0
    assert dph("show", after, "--no-pager")[0] == 0
    assert dph("diagnose", after)[0] == 0
    code, _, err = dph("card", after)
    assert code == 0, err
    assert "Consolidation" in (after / "README.md").read_text()
    assert dph("report", after, "--out", after / "report.html")[0] == 0


def test_a_forecast_alone_leaves_its_file_and_nothing_else(dph, trained, prompts, tmp_path):
    words = ("consolidate", trained, "--prompts", prompts, "--out", tmp_path / "out", *FEW)
    code, out, err = dph(*words, "--forecast-only")
    assert code == 0, err
    assert "to come: 48 answers to 12 prompts" in out
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"forecast.json", ".lock"}
    code, out, _ = dph(*words, "--forecast-only", "--json")
    content = json.loads(out)
    assert content["forecast"] == json.loads((tmp_path / "out" / "forecast.json").read_text())
    assert content["forecast"]["labelled"]["where"] == "training problems"


def test_its_json_has_forecast_evaluations_and_cost(dph, trained, prompts, tmp_path):
    words = ("consolidate", trained, "--prompts", prompts, "--out", tmp_path / "out", *FEW)
    code, out, err = dph(*words, "--json")
    assert code == 0, err
    content = json.loads(out)
    assert content["training"]["step"] == 2
    assert content["run"] == str(tmp_path / "out")
    for name, place in (("base", "out/base"), ("evaluation", "out")):
        assert content[name] == json.loads((tmp_path / place / "evaluation.json").read_text())
    was = json.loads((trained / "evaluation.json").read_text())
    for key in ("greedy", "pass_at_k", "ci95"):
        assert content["base"]["sets"]["dev"][key] == was["sets"]["dev"][key]
    assert content["cost"]["answers"] == content["forecast"]["spent"]["answers"] + 48
    again = json.loads(dph(*words, "--json")[1])
    assert again["evaluation"] == content["evaluation"]
    assert again["forecast"] == content["forecast"]


@pytest.fixture
def refused(dph, trained, prompts, tmp_path):
    """One line, exit code 2, and nothing new: ``refused(change, part)``."""

    def check(said, *words, run=trained, file=prompts):
        before = contents(tmp_path)
        code, out, err = dph("consolidate", run, "--prompts", file, *FEW, *words)
        assert (code, out) == (2, ""), err
        assert len(err.strip().splitlines()) == 1, err
        assert said in err
        left = {p: b for p, b in contents(tmp_path).items() if p.name != ".lock"}
        assert left == {p: b for p, b in before.items() if p.name != ".lock"}

    return check


def test_each_bad_input_is_refused_in_one_line(refused, trained, prompts, tmp_path):
    refused("nowhere.jsonl", file=tmp_path / "nowhere.jsonl")
    (tmp_path / "empty.jsonl").touch()
    refused("holds no problems", file=tmp_path / "empty.jsonl")
    refused("prompts of the evaluation set 'dev'", file=prompts.parent / "problems.jsonl")
    refused("is neither a run nor the directory of a saved", run=tmp_path / "nowhere")
    refused("name a recipe of the same task", run=prompts.parent / "model")
    refused("lies in", "--out", trained / "consolidation")
    refused("that learns nothing from agreement", "--set", "stores.after.tilt=0")
    refused("unknown setting", "--set", "stores.after.tlit=2")
    refused("--labelled: 4 of 4", "--labelled", prompts.parent / "dev.jsonl")
    own = ("--set", f'data.modules=["{prompts.parent}"]', "--set", "data.verifier=verifier:grade")
    refused("cannot compare two answers", *own)
    recipe = ("--recipe", trained / "recipe.toml")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "config.json").write_text('{"model_type": "t5"}')
    refused("wrong", *recipe, run=tmp_path / "wrong")


def test_another_run_is_not_written_over(dph, refused, trained, prompts, tmp_path):
    words = ("consolidate", trained, "--prompts", prompts, "--out", tmp_path / "out", *FEW)
    assert dph(*words)[0] == 0
    refused(
        "stores.after.tilt was 4.0, now 2.0",
        "--out",
        tmp_path / "out",
        "--set",
        "stores.after.tilt=2",
    )


@pytest.mark.slow
def test_a_run_of_trl_and_trls_own_checkpoint_end_with_the_same_weights(
    dph, task, prompts, tmp_path
):
    pytest.importorskip("trl")
    run = tmp_path / "by_trl"
    words = ("--engine", "trl", "--set", "method=grpo", "--set", "train.learning_rate=0.01")
    code, _, err = dph("run", task, "--out", run, *words)
    assert code == 0, err
    (own,) = (run / "trl").glob("checkpoint-*")
    for place, out, more in (
        (run, tmp_path / "of_run", ()),
        (own, tmp_path / "of_checkpoint", ("--recipe", run / "recipe.toml")),
    ):
        words = (place, "--prompts", prompts, "--out", out, *more, *FEW)
        code, _, err = dph("consolidate", *words)
        assert code == 0, err
    weights = "checkpoints/step_000002/model.safetensors"
    assert (tmp_path / "of_run" / weights).read_bytes() == (
        tmp_path / "of_checkpoint" / weights
    ).read_bytes()

"""A finished run consolidated from the command line: forecast, run of its own, refusals."""

import json
import shutil

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
    print(out, err)
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

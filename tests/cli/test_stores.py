"""Named stores from the command line: made beside the pool, shown, checked."""

import json
import shutil
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"

BROAD = (
    "--set",
    "method=dph_broad",
    "--set",
    "stores.broad.novel=false",
    "--set",
    "stores.broad.answers=4",
    "--set",
    "data.verifier=exact",
)


@pytest.fixture
def unlabelled(example):
    """Prompts of the example without answers, each said twice so that they are no test prompts."""
    text = (example.parent / "problems.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    path = example.parent / "unlabelled.jsonl"
    path.write_text(
        "".join(
            json.dumps({"problem_id": f"u{i}", "prompt": f"{row['prompt']} {row['prompt']}"}) + "\n"
            for i, row in enumerate(rows)
        )
    )
    return ("--set", f"stores.broad.file={path}")


def test_stores_are_made_beside_the_pool_and_told(dph, example, unlabelled, tmp_path):
    words = ("presample", example, "--out", tmp_path / "run", *BROAD, *unlabelled)
    code, out, err = dph(*words)
    assert code == 0, err
    assert "store broad: 48 answers to 12 prompts" in out
    assert "% of the prompts two or more answers agree" in out
    assert "store broad: 48/48 samples" in err
    assert (tmp_path / "run" / "pool" / "manifest.json").is_file()
    content = json.loads(dph(*words, "--json")[1])
    store = content["stores"]["broad"]
    assert store["store"] == str(tmp_path / "run" / "stores" / "broad")
    assert (store["prompts"], store["answers"], store["labelled"]) == (12, 48, 0)
    assert store["bytes_per_token"] > 0
    assert 0 <= store["prompts_that_agree"] <= 1


def test_the_shipped_example_runs_from_rl_to_the_consolidation(dph, speller, tmp_path):
    shutil.copytree(RECIPES / "example-unlabelled", tmp_path / "task")
    words = (tmp_path / "task" / "recipe.toml", "--set", f"model.path={speller}")
    code, out, err = dph("recipe", "check", *words)
    assert (code, "consolidate: 8 answers of the trained policy" in out) == (0, True), err
    code, _, err = dph("run", *words, "--out", tmp_path / "run")
    assert code == 0, err
    store = tmp_path / "run" / "consolidation" / "stores" / "after"
    manifest = json.loads((store / "manifest.json").read_text())
    assert (manifest["counts"]["prompts"], manifest["counts"]["answers"]) == (16, 128)
    assert manifest["values"]["compared_by"] == "number"
    assert (tmp_path / "run" / "evaluation.json").is_file()


def test_without_stores_the_document_is_what_it_was(dph, example, tmp_path):
    content = json.loads(dph("presample", example, "--out", tmp_path / "run", "--json")[1])
    assert "stores" not in content
    assert not (tmp_path / "run" / "stores").exists()


def test_a_recipe_without_its_file_can_be_shown_but_not_run(dph, example, tmp_path):
    code, out, _ = dph("recipe", "show", example, *BROAD)
    assert code == 0
    assert "stores.broad.tilt" in out
    for verb in ("run", "presample", "train"):
        code, _, err = dph(verb, example, "--out", tmp_path / "run", *BROAD)
        assert code == 2
        assert "the store 'broad' needs stores.broad.file: a file of prompts" in err
    assert not (tmp_path / "run" / "pool").exists()
    code, _, err = dph("recipe", "check", example, *BROAD)
    assert code == 2
    assert "the store 'broad' needs stores.broad.file" in err


def test_prompts_that_cannot_be_had_are_refused_before_the_pool_is_drawn(dph, example, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for verb in ("run", "presample"):
        out = tmp_path / verb
        words = (verb, example, "--out", out, *BROAD, "--set", f"stores.broad.file={empty}")
        code, _, err = dph(*words)
        assert (code, "holds no problems" in err) == (2, True)
        assert not out.exists()


def test_check_opens_what_stores_name(dph, example, unlabelled):
    code, out, _ = dph("recipe", "check", example, *BROAD, *unlabelled)
    assert code == 0
    assert (
        "4 answers to each of the unlabelled prompts, tilted by agreement of different texts ^ 4"
        in out
    )
    votes = ("stores.broad.tilt=0", "stores.broad.values=majority", "stores.broad.targets=answers")
    words = [word for setting in votes for word in ("--set", setting)]
    code, out, _ = dph("recipe", "check", example, *BROAD, *unlabelled, *words)
    assert code == 0
    assert "unlabelled prompts, of which those of the largest class that agrees are learnt" in out
    wrong = {
        "stores.broad.values=vote": "'majority', 'shuffled'",
        "stores.broad.targets=answers": "values='distinct' chooses none",
        "stores.broad.only.part=others": "no row has the column 'part'",
        f"stores.broad.file={example.parent / 'problems.jsonl'}": "prompts of the evaluation set",
        "stores.broad.novel=true": "no prompt of",
        "objective.anchors.broad.samples=store:narrow": "'store:narrow' does not name a store",
        "stores.broad.top=0": "broad.top: should be a whole number from 1, or 'all', got 0\n",
        "stores.broad.answers=1": "at least 2 answers a prompt, got answers=1",
        "data.verifier=mine:grade": "cannot compare two answers",
    }
    for setting, message in wrong.items():
        code, _, err = dph("recipe", "check", example, *BROAD, *unlabelled, "--set", setting)
        assert (code, message in err) == (2, True), (setting, err)


def test_unlabelled_problems_are_checked_and_planned(dph, example, unlabelled):
    file = unlabelled[1].partition("=")[2]
    changes = {
        "method": "ttrl",
        "data.verifier": "exact",
        "self_consistency.problems_per_step": 2,
        "self_consistency.novel": "false",
    }
    overrides = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    words = ("recipe", "check", example, *overrides)
    code, _, err = dph(*words)
    assert code == 2
    assert "needs self_consistency.file" in err
    code, out, err = dph(*words, "--set", f"self_consistency.file={file}")
    assert code == 0, err
    assert "(2 unlabelled, rewarded by majority)" in out

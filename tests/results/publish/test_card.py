import json
import shutil
import tomllib

import pytest
import yaml

from dph._base.files import sha256
from dph.errors import CheckpointError, DataError
from dph.records import Problem
from dph.results.publish import model_card, read_finished_run, shared_recipe, write_card
from finished_runs import evaluation_of, make_run
from small_pools import write_pool_of
from tiny_models import build_model


def test_a_card_says_what_was_measured_and_its_metadata_what_comes_from_the_hub(finished):
    card = model_card(read_finished_run(finished))
    assert "16 samples per problem, in per cent, with 95% intervals" in card
    assert "### dev: 40 problems" in card
    rows = [line.split("|")[1:-1] for line in card.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[0] == ["dev", "greedy", "mean", "pass@1", "pass@8", "styles", "cut off"]
    base = ["Base model", "30.0", "30.0 [25.0, 35.0]", "30.0", "60.0 [50.0, 90.0]", "3.0", "0.0"]
    assert cells[2] == base
    assert cells[3][:3] == ["GRPO", "40.0", "40.0 [35.0, 45.0]"]
    metadata = yaml.safe_load(card.split("---")[1])
    assert metadata == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "base_model": "org/base",
        "datasets": ["org/words"],
        "tags": ["dph", "reinforcement-learning", "grpo"],
    }


def test_a_card_holds_the_recipe_and_no_path_of_this_machine(tmp_path):
    run = make_run(tmp_path / "run", model="/home/me/models/base", revision=None)
    card = model_card(read_finished_run(run))
    assert 'path = "base"' in card
    assert "`base`, trained with GRPO" in card
    assert "base_model" not in card
    assert "/home/me" not in card
    assert str(tmp_path) not in card


def test_the_cost_of_all_stages_is_told_and_what_was_not_measured(finished):
    rows = [{"step": 1, "tokens": 40, "completion_tokens": 10.0, "seconds": 2.0}] * 2
    (finished / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    card = model_card(read_finished_run(finished))
    assert "- cost of all stages: 8 answers, 80 tokens, 4.0 s\n" in card
    (finished / "evaluation.json").unlink()
    assert "## Measured\n\nNot measured." in model_card(read_finished_run(finished))


def test_a_card_is_written_again_unless_somebody_made_it_their_own(finished):
    run = read_finished_run(finished)
    path = write_card(run)
    assert path == finished / "README.md"
    assert write_card(run) == path
    path.write_text("# My model\n")
    with pytest.raises(DataError, match="was not written by `dph card`, or has been changed"):
        write_card(run)
    assert path.read_text() == "# My model\n"


def test_paths_lose_their_directories_and_names_on_the_hub_stay(finished):
    text = shared_recipe(read_finished_run(finished).recipe)
    table = tomllib.loads(text)
    assert table["data"]["train"] == "hf://datasets/org/words@v1/train.parquet"
    assert table["data"]["sets"]["dev"]["path"] == "dev.jsonl"
    assert table["data"]["modules"] == ["secret"]
    assert table["model"] == table["model"] | {"path": "org/base", "revision": "a" * 40}
    assert "/home/me" not in text


def test_a_run_says_its_newest_checkpoint_and_both_evaluations(finished):
    run = read_finished_run(finished)
    assert run.checkpoint.name == "step_000002"
    assert (run.base["model"], run.results.evaluation["model"]) == ("base", str(run.checkpoint))
    assert run.pool is None
    assert run.hashes == {}


def test_the_pool_is_known_by_the_hash_of_its_manifest(tmp_path):
    run = make_run(tmp_path / "run", method="dph_f")
    problem = Problem(problem_id="p", prompt="w3", answer={"answer": "w4"})
    write_pool_of(build_model(), run / "pool", [], explored=[problem])
    found = read_finished_run(run)
    assert found.hashes == {"pool": sha256(run / "pool" / "manifest.json")}
    assert found.pool.source.model == "small"


def test_a_run_without_a_checkpoint_is_refused(finished):
    shutil.rmtree(finished / "checkpoints" / "step_000002")
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        read_finished_run(finished)


def test_an_evaluation_of_an_earlier_checkpoint_is_not_told_as_the_newest(finished):
    old = evaluation_of("checkpoints/step_000001", 0.2)
    (finished / "evaluation.json").write_text(json.dumps(old))
    with pytest.raises(DataError, match=r"is of step_000001, but the run ended with step_000002"):
        read_finished_run(finished)


def test_a_damaged_evaluation_is_refused(finished):
    (finished / "base" / "evaluation.json").write_text("[]")
    with pytest.raises(DataError, match="is not an evaluation"):
        read_finished_run(finished)

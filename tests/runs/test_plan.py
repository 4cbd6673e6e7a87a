"""The plan of a run: places and keys of what it makes, each worked out once."""

from dataclasses import replace

from dph._base.files import make_directory, write_json
from dph.runs import training_digest
from dph.runs.directory import RunDirectory
from dph.runs.plan import open_plan
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages


def test_a_plan_knows_the_places_of_what_is_made(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        assert plan.pool == tmp_path / "run" / "pool"
        assert plan.initial == tmp_path / "model"
        elsewhere = replace(plan, directory=RunDirectory(tmp_path / "other"))
        assert elsewhere.pool == tmp_path / "other" / "pool"
    assert not (tmp_path / "run").exists()


def test_the_key_of_training_follows_the_pools_and_nothing_else_is_hashed_again(
    make_recipe, tmp_path, monkeypatch
):
    hashed = []
    whole = training_digest.directory_fingerprint
    monkeypatch.setattr(
        training_digest, "directory_fingerprint", lambda path: hashed.append(path) or whole(path)
    )
    anchor = {"divergence": "alpha", "weight": 0.1, "samples": f"pool:{tmp_path / 'pool'}"}
    recipe = make_recipe("grpo", objective={"anchors": {"old": anchor}})
    with open_plan(recipe, tmp_path / "run") as plan:
        before = plan.training_key()
        assert plan.training_key() == before
        write_json(make_directory(tmp_path / "pool") / "manifest.json", {"not": "a pool"})
        assert plan.training_key() != before
    assert hashed == [plan.initial]


def test_a_whole_run_hashes_the_initial_model_for_its_key_once(make_recipe, tmp_path, monkeypatch):
    hashed = []
    whole = training_digest.directory_fingerprint
    monkeypatch.setattr(
        training_digest, "directory_fingerprint", lambda path: hashed.append(path) or whole(path)
    )
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        run_stages(plan, Silent())
    assert hashed == [tmp_path / "model"]


def test_a_plan_makes_nothing_by_itself_and_its_rule_is_the_pools(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        assert plan.needs_pool
        assert presample_stage(plan, Silent()).rule == plan.rule

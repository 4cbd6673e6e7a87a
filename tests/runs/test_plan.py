"""The plan of a run: places and keys of what it makes, each worked out once."""

from dataclasses import replace

import pytest

from dph._base.files import write_json
from dph.runs import training_digest
from dph.runs.directory import RunDirectory
from dph.runs.plan import open_plan
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages


@pytest.fixture
def with_store(make_recipe, tmp_path):
    (tmp_path / "unlabelled.jsonl").write_text('{"problem_id": "u", "prompt": "say a"}\n')
    stores = {"broad": {"file": str(tmp_path / "unlabelled.jsonl"), "answers": 2}}
    return make_recipe("dph_broad", stores=stores, presample={"seed": 7})


def test_a_plan_knows_the_places_of_what_is_made_and_the_seed_of_each(with_store, tmp_path):
    with open_plan(with_store, tmp_path / "run") as plan:
        assert plan.pool == tmp_path / "run" / "pool"
        assert plan.initial == tmp_path / "model"
        (store,) = plan.stores.values()
        assert store.key == "stores.broad"
        assert store.path == tmp_path / "run" / "stores" / "broad"
        assert store.seed == plan.presampling_seed == 7
        assert plan.consolidates_on == "after"
        elsewhere = replace(plan, directory=RunDirectory(tmp_path / "other"))
        assert elsewhere.stores["broad"].path == tmp_path / "other" / "stores" / "broad"
    assert not (tmp_path / "run").exists()


def test_the_key_of_training_follows_the_stores_and_nothing_else_is_hashed_again(
    with_store, tmp_path, monkeypatch
):
    hashed = []
    whole = training_digest.directory_fingerprint
    monkeypatch.setattr(
        training_digest, "directory_fingerprint", lambda path: hashed.append(path) or whole(path)
    )
    with open_plan(with_store, tmp_path / "run") as plan:
        before = plan.training_key()
        assert plan.training_key() == before
        manifest = plan.stores["broad"].path / "manifest.json"
        manifest.parent.mkdir(parents=True)
        write_json(manifest, {"not": "a store"})
        monkeypatch.setattr(
            training_digest,
            "read_manifest",
            lambda *_: type("Manifest", (), {"files": {"groups.parquet": "ab"}}),
        )
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

import json
import tomllib

import pytest
import tomli_w

from dph.errors import PoolError, SettingsError
from dph.recipe import load_recipe, recipe_toml, resolve_recipe
from dph.recipe.aliases import LEFT, RIVAL_LEFT, TRL_LEFT
from dph.recipe.section import nested
from dph.runs.presample.manifest import read_manifest

MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def resolved(**changes):
    return resolve_recipe({**MINIMAL, **nested(changes)})


@pytest.mark.parametrize("method", ["dph_broad", "consolidation", "consensus", "lmsi", "rft"])
def test_a_method_that_left_is_refused_with_the_last_commit_that_reads_it(method):
    with pytest.raises(
        SettingsError, match="commit d3c0d2a0 is the last one that reads it"
    ) as refused:
        resolved(method=method)
    assert str(refused.value) == LEFT.format(f"method = {method!r}")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"stores.broad.answers": 4}, "[stores.broad]"),
        ({"consolidation.updates": 5}, "[consolidation]"),
        ({"consolidation.rate": 2.0}, "[consolidation]"),
        *(
            ({key: value}, f"{key} = {value!r}")
            for key, value in {
                "self_consistency.reward": "consensus",
                "self_consistency.samples": "store:b",
                "objective.anchors.a.divergence": "distribution_kl",
                "objective.anchors.a.samples": "store:b",
            }.items()
        ),
    ],
)
def test_a_setting_that_left_is_refused_by_the_same_message(changes, named):
    with pytest.raises(SettingsError) as refused:
        resolved(**changes)
    assert str(refused.value) == LEFT.format(named)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("method", name) for name in ("alpha_dpg", "bbg", "clip_cov", "dyjr", "kl_cov")),
        ("objective.advantage.kind", "bbg"),
        ("objective.surrogate.kind", "clip_cov"),
        ("objective.penalties.held.kind", "kl_cov"),
        ("objective.anchors.old.samples", "recent:4"),
        ("objective.anchors.old.recent_capacity", 7),
        ("objective.anchors.old.target", 0.1),
        ("objective.anchors.old.weight_max", 3.0),
    ],
)
def test_a_rival_that_needs_machinery_is_refused_with_the_last_commit_that_reads_it(key, value):
    with pytest.raises(SettingsError, match="commit 8d7e0dec is the last one") as refused:
        resolved(**{key: value})
    assert str(refused.value) == RIVAL_LEFT.format(f"{key} = {value!r}")


def test_all_that_left_is_named_at_once():
    with pytest.raises(SettingsError) as refused:
        resolved(**{"method": "lmsi", "stores.after.answers": 4, "train.engine": "trl"})
    said = [LEFT.format("method = 'lmsi'"), LEFT.format("[stores.after]")]
    assert str(refused.value) == "; ".join([*said, TRL_LEFT.format("train.engine = 'trl'")])


@pytest.mark.parametrize("changes", [{"train.engine": "trl"}, {"trl.processes": 2}])
def test_trl_as_an_engine_points_to_the_trainer(changes):
    with pytest.raises(SettingsError, match=r"DPHTrainer \(docs/tutorials/trl\.md\)"):
        resolved(**changes)


def test_a_recipe_of_an_older_run_is_read_where_nothing_of_it_was_on(tmp_path):
    told = resolve_recipe(
        {**MINIMAL, "method": "ttrl", "objective": {"divergence": "alpha", "eta": 0.1}}
    )
    old = nested({"stores": {}, "consolidation.updates": 0, "consolidation.rate": 1.0})
    table = {**tomllib.loads(recipe_toml(told)), **old, "trl": {"processes": 1}}
    table["self_consistency"]["reward"] = "majority"
    table["sampling"]["cuda_graphs"] = True
    of_anchors = {"target_rate": 0.2, "weight_min": 0.01, "weight_max": 10.0}
    table["objective"]["anchors"]["rehearsal"] |= of_anchors
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(table))
    assert recipe_toml(load_recipe(tmp_path / "recipe.toml")) == recipe_toml(told)


def test_the_manifest_of_a_store_is_refused_by_the_same_message(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 3, "kind": "store"}))
    with pytest.raises(PoolError) as refused:
        read_manifest(tmp_path)
    assert str(refused.value) == LEFT.format(f"the store {tmp_path}")

import json
import tomllib

import pytest
import tomli_w

from dph.errors import PoolError, SettingsError
from dph.recipe import load_recipe, recipe_toml
from dph.recipe.keys import LEFT, RIVAL_LEFT, TRL_LEFT
from dph.recipe.section import nested, read_override
from dph.runs.presample.manifest import read_manifest
from minimal_recipe import resolved

LEFT_METHODS = [
    *(f"method={name}" for name in ("dph_broad", "consolidation", "consensus", "lmsi", "rft")),
    "self_consistency.reward=consensus",
    "self_consistency.samples=store:b",
    "objective.anchors.a.divergence=distribution_kl",
    "objective.anchors.a.samples=store:b",
]
RIVALS = [
    *(f"method={name}" for name in ("alpha_dpg", "bbg", "clip_cov", "dyjr", "kl_cov")),
    "objective.advantage.kind=bbg",
    "objective.surrogate.kind=clip_cov",
    "objective.penalties.held.kind=kl_cov",
    "objective.anchors.old.samples=recent:4",
    "objective.anchors.old.recent_capacity=7",
    "objective.anchors.old.target=0.1",
    "objective.anchors.old.weight_max=3.0",
]


def named(override):
    key, value = read_override(override)
    return f"{key} = {value!r}"


REFUSED = {
    **{override: [LEFT.format(named(override))] for override in LEFT_METHODS},
    **{override: [RIVAL_LEFT.format(named(override))] for override in RIVALS},
    "stores.broad.answers=4": [LEFT.format("[stores.broad]")],
    "consolidation.updates=5": [LEFT.format("[consolidation]")],
    "consolidation.rate=2.0": [LEFT.format("[consolidation]")],
    "trl.processes=2": [TRL_LEFT.format("[trl]")],
    "method=lmsi; stores.after.answers=4; train.engine=trl": [  # all at once
        LEFT.format("method = 'lmsi'"),
        LEFT.format("[stores.after]"),
        TRL_LEFT.format("train.engine = 'trl'"),
    ],
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_what_left_is_refused_by_name_with_the_last_commit_that_reads_it(overrides):
    with pytest.raises(SettingsError) as refused:
        resolved(overrides)
    assert str(refused.value) == "; ".join(REFUSED[overrides])
    for refusal, said in (
        (LEFT, "commit d3c0d2a0"),
        (RIVAL_LEFT, "commit 8d7e0dec"),
        (TRL_LEFT, "DPHTrainer (docs/tutorials/trl.md)"),
    ):
        assert said in refusal


def test_a_recipe_of_an_older_run_is_read_where_nothing_of_it_was_on(tmp_path):
    told = resolved("method=ttrl; objective.divergence=alpha; objective.eta=0.1")
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

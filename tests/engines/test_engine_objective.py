"""The objective of other engines: one table, JSON, a recipe's path, a method, short names."""

import json

import pytest

from dph.engines.engine_objective import engine_objective
from dph.errors import SettingsError
from dph.recipe import resolve_recipe

REST = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def of_recipe(**recipe):
    return resolve_recipe({**REST, **recipe}).objective


@pytest.mark.parametrize("method", ["grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js"])
def test_a_method_is_what_it_is_in_a_recipe(method):
    assert engine_objective(None, method=method) == of_recipe(method=method)


@pytest.mark.parametrize(
    "table",
    [
        {"eta": 0.3},
        {"anchors": {"rehearsal": {"divergence": "alpha", "alpha": 0.2}}},
        {"advantage": {"scale": "none"}, "kl_coefficient": 0.1, "reduction": "fixed_length"},
    ],
)
def test_a_table_or_json_text_over_a_method_is_what_it_is_in_a_recipe(table):
    expected = of_recipe(method="dph_f", objective=table)
    assert engine_objective(table, method="dph_f") == expected
    assert engine_objective(json.dumps(table), method="dph_f") == expected


def test_a_recipe_is_read_with_its_method(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        'method = "dph_js"\nmodel.path = "m"\ndata.train = "t"\n[objective]\nclip_low = 0.1'
    )
    expected = of_recipe(method="dph_js", objective={"clip_low": 0.1})
    assert engine_objective(str(path)) == expected


def test_with_nothing_said_it_is_the_papers_forward_kl_and_the_engines_own_surrogate():
    objective = engine_objective(None)
    (anchor,) = objective.anchors.values()
    assert (anchor.divergence, anchor.weight) == ("forward_kl", 0.01)
    assert "surrogate" not in objective.model_fields_set
    assert engine_objective({}, short={"eta": 0.3}).anchors["rehearsal"].weight == 0.3


def test_a_table_is_the_whole_objective():
    assert not engine_objective({"advantage": {"scale": "none"}}).rehearses


def test_short_names_may_stand_beside_it():
    objective = engine_objective({"clip_low": 0.1}, short={"eta": 0.3, "alpha": None})
    assert objective.surrogate.parameters["clip_low"] == 0.1
    assert objective.anchors["rehearsal"].divergence == "forward_kl"


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        ({"eta": 0.1}, {"short": {"eta": 0.2}}, r"rehearsal.weight is 0.1, and also 0.2"),
        (None, {"short": {"eta": -1.0}}, r"^eta: Input should be greater .*, got -1.0"),
        (None, {"short": {"eta": float("nan")}}, r"^eta: .*got nan"),
        (None, {"short": {"divergence": "alpha", "alpha": 1.0}}, r"^alpha: .*got 1.0"),
        (None, {"short": {"divergence": "none"}}, r"eta=0.01 needs a divergence"),
        (None, {"method": "dhp"}, r"method must be one of grpo, .*, got 'dhp'"),
        ({"etha": 0.1}, {}, r"etha: Extra inputs"),
        ("{'eta': 0.1}", {}, r"objective is not JSON"),
        ("[1]", {}, r"a table, JSON text or the path of a recipe \(.toml\), got '\[1\]'"),
        ("none.toml", {}, r"cannot read the recipe none.toml"),
        ("none.toml", {"method": "grpo"}, r"method='grpo' cannot go with the recipe none.toml"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(given, more, message):
    with pytest.raises(SettingsError, match=message):
        engine_objective(given, **more)


def test_shaped_rewards_beside_an_advantage_that_counts_are_refused_in_every_engine():
    with pytest.raises(SettingsError, match=r"overlong_buffer = 0.2 makes .*'maxrl' counts right"):
        engine_objective(None, method="maxrl", short={"overlong_buffer": 0.2})
    unharmed = {"overlong_buffer": 0.2, "overlong_penalty": 0.0}
    assert engine_objective(None, method="maxrl", short=unharmed).overlong_buffer == 0.2

import pytest

from dph.errors import SettingsError
from dph.recipe import METHODS, resolve_recipe
from dph.recipe.engines import ENGINES as ROWS
from dph.recipe.engines import engine_settings
from dph.recipe.keys import known_keys
from dph.recipe.schema import Recipe
from dph.recipe.section import nested

ENGINES = [engine for engine, row in ROWS.items() if row.settings]
of_every_engine = pytest.mark.parametrize("engine", ENGINES)


def recipe(engine, **changes):
    required = {"method": "grpo", "model.path": "model", "data.train": "problems.jsonl"}
    return resolve_recipe(nested({**required, "train.engine": engine, **changes}))


@of_every_engine
def test_the_table_has_a_row_for_every_key_and_a_row_that_only_some_values_have_says_why(engine):
    settings = engine_settings(engine)
    assert set(settings) == {*known_keys()}
    for key, row in settings.items():
        assert (row.only is not None or bool(row.never)) == bool(row.why), key
    assert isinstance(recipe(engine), Recipe)


REFUSED = {
    "model.adapter.kind": "lora",
    "evaluate.every": 5,
    "objective.advantage.kind": "flowrl",
    "train.problems_per_step": 0,
    "train.shared_prompts": "never",
    "train.keep_samples": "all",
    "model.weights": "bfloat16",
    "data.verifier": "math_qwen",
    "data.math_any_expression": False,
    "data.template.enable_thinking": False,
    "sampling.stop": ["<end>"],
    "objective.overlong_filter": True,
    "train.final_rate": 0.5,
    "train.old_logprobs": "sampler",
}
WITH = {
    "evaluate.every": {"data.sets.dev": "dev.jsonl"},
    "model.weights": {"model.dtype": "bfloat16"},
    "train.problems_per_step": {"method": "dph_f"},
}


@pytest.mark.parametrize(("key", "value"), REFUSED.items())
def test_what_verl_cannot_have_is_refused_by_its_name_and_value(key, value):
    changes = {key: value, **WITH.get(key, {})}
    with pytest.raises(SettingsError) as refused:
        recipe("verl", **changes)
    said = f"{key} = {value!r} is not possible with train.engine = 'verl': "
    assert said in str(refused.value)
    assert isinstance(recipe("own", **changes), Recipe)


def test_all_refused_settings_are_named_at_once():
    changes = {"train.final_rate": 0.5, "sampling.stop": ["<end>"], "objective.max_refills": 3}
    with pytest.raises(SettingsError) as refused:
        recipe("verl", **changes)
    assert all(key in str(refused.value) for key in changes)


def test_a_term_that_weighs_nothing_is_not_in_the_way():
    off = {"objective.penalties.e.kind": "entropy", "objective.penalties.e.weight": 0.0}
    assert isinstance(recipe("verl", **off), Recipe)
    with pytest.raises(SettingsError, match=r"objective\.penalties\.e\.kind = 'entropy'"):
        recipe("verl", **{**off, "objective.penalties.e.weight": 0.1})


UNTRAINED = {"verl": {"entropy_bonus", "exact_rkl", "exact_fkl", "flowrl", "ttrl"}}
"""The methods that an engine cannot train, as docs/guides/cluster.md says."""


@of_every_engine
@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_trained_or_refused_by_name(engine, method):
    more = {"self_consistency.file": "p.jsonl"} if method == "ttrl" else {}
    if method in UNTRAINED[engine]:
        with pytest.raises(SettingsError, match=r"is not possible with train\.engine"):
            recipe(engine, method=method, **more)
    else:
        assert isinstance(recipe(engine, method=method, **more), Recipe)

import pytest

from dph.errors import SettingsError
from dph.recipe import METHODS, resolve_recipe
from dph.recipe.engines import ENGINES as ROWS
from dph.recipe.engines import engine_settings
from dph.recipe.keys import known_keys
from dph.recipe.schema import Recipe
from dph.recipe.section import nested

REQUIRED = {"model.path": "model", "data.train": "problems.jsonl"}
ENGINES = [engine for engine, row in ROWS.items() if row.settings]


def recipe(engine, **changes):
    table = {**REQUIRED, "train.engine": engine, **changes}
    method = table.pop("method", "grpo")
    return resolve_recipe({"method": method, **nested(table)})


@pytest.mark.parametrize("engine", ENGINES)
def test_the_table_has_a_row_for_every_key_of_the_schema_and_no_other(engine):
    assert set(engine_settings(engine)) == {key for key, _ in known_keys()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_setting_that_only_some_values_have_says_why(engine):
    for key, row in engine_settings(engine).items():
        assert (row.only is not None or bool(row.never)) == bool(row.why), key
        assert row.key, key


@pytest.mark.parametrize("engine", ENGINES)
def test_the_defaults_are_allowed(engine):
    assert isinstance(recipe(engine), Recipe)


@pytest.mark.parametrize(
    ("engine", "key", "value"),
    [
        ("verl", "model.adapter.kind", "lora"),
        ("verl", "evaluate.every", 5),
        ("verl", "objective.advantage.kind", "flowrl"),
        ("verl", "train.problems_per_step", 0),
        ("verl", "train.shared_prompts", "never"),
        ("verl", "train.keep_samples", "all"),
        ("verl", "model.weights", "bfloat16"),
        ("verl", "data.verifier", "math_qwen"),
        ("verl", "data.math_any_expression", False),
        ("verl", "data.template.enable_thinking", False),
        ("verl", "sampling.stop", ["<end>"]),
        ("verl", "objective.overlong_filter", True),
        ("verl", "train.final_rate", 0.5),
        ("verl", "train.old_logprobs", "sampler"),
    ],
)
def test_what_an_engine_cannot_have_is_refused_by_its_name_and_value(engine, key, value):
    changes = {key: value}
    if key == "evaluate.every":
        changes["data.sets.dev"] = "dev.jsonl"
    if key == "model.weights":
        changes["model.dtype"] = "bfloat16"
    if key == "train.problems_per_step":
        changes |= {"method": "dph_f"}
    with pytest.raises(SettingsError) as refused:
        recipe(engine, **changes)
    assert f"{key} = {value!r} is not possible with train.engine = {engine!r}: " in str(
        refused.value
    )
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


REFUSED = {"verl": {"entropy_bonus", "exact_rkl", "exact_fkl", "flowrl", "ttrl"}}
"""The methods that an engine cannot train, as docs/guides/cluster.md says."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_trained_or_refused_by_name(engine, method):
    more = {"self_consistency.file": "p.jsonl"} if method == "ttrl" else {}
    if method in REFUSED[engine]:
        with pytest.raises(SettingsError, match=r"is not possible with train\.engine"):
            recipe(engine, method=method, **more)
    else:
        assert isinstance(recipe(engine, method=method, **more), Recipe)

import pytest
from pydantic import ValidationError

from dph.errors import SettingsError
from dph.recipe import METHODS, resolve_recipe
from dph.recipe.keys import known_keys

MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def resolve(**changes):
    return resolve_recipe(MINIMAL | changes)


def test_a_recipe_needs_a_model_and_problems_and_nothing_else():
    recipe = resolve()
    assert recipe.method == "dph_f"
    assert recipe.model.path == "m"


def test_settings_cannot_be_changed_after_they_were_checked():
    recipe = resolve()
    with pytest.raises(ValidationError):
        recipe.train.steps = 3


def test_a_text_is_not_taken_for_a_number():
    with pytest.raises(SettingsError, match=r"train\.steps: .*integer.*'10'"):
        resolve(train={"steps": "10"})


def test_a_number_is_not_taken_for_a_truth_value():
    with pytest.raises(SettingsError, match=r"data\.chat"):
        resolve(data={"train": "t.jsonl", "chat": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_learning_rate_is_a_positive_finite_number(value):
    with pytest.raises(SettingsError, match=r"train\.learning_rate"):
        resolve(train={"learning_rate": value})


def test_final_answer_phrases_are_texts():
    data = {"train": "t.jsonl", "math_phrases": ["so"]}
    assert resolve(data=data).data.math_phrases == ("so",)
    with pytest.raises(SettingsError, match=r"math_phrases"):
        resolve(data=data | {"math_phrases": [" "]})


def test_a_set_may_be_a_bare_path():
    sets = resolve(data={"train": "t.jsonl", "sets": {"dev": "d.jsonl"}}).data.sets
    assert str(sets["dev"].path) == "d.jsonl"
    assert sets["dev"].verifier is None


@pytest.mark.parametrize(("samples", "threshold"), [(1, 1), (4, 4), (8, 7), (16, 14), (32, 28)])
def test_the_threshold_follows_the_samples_at_seven_eighths(samples, threshold):
    assert resolve(presample={"samples": samples}).presample.threshold == threshold


@pytest.mark.parametrize(("own", "seed"), [({}, 3), ({"seed": 0}, 0), ({"seed": 7}, 7)])
def test_the_seed_of_the_pool_is_the_recipes_unless_it_has_its_own(own, seed):
    assert resolve(seed=3, presample=own).presampling_seed == seed


def test_a_threshold_above_the_samples_is_refused():
    with pytest.raises(SettingsError, match="threshold=9, samples=8"):
        resolve(presample={"threshold": 9})


@pytest.mark.parametrize(("samples", "ks"), [(1, (1,)), (8, (1, 8)), (20, (1, 8, 16))])
def test_the_k_of_pass_at_k_follow_the_samples(samples, ks):
    assert resolve(evaluate={"samples": samples}).evaluate.k == ks


def test_a_k_above_the_samples_is_refused():
    with pytest.raises(SettingsError, match="at most the number of samples: got k = 64, samples = 32"):
        resolve(evaluate={"k": [1, 64]})


def test_no_k_at_all_is_refused():
    with pytest.raises(SettingsError, match=r"evaluate\.k"):
        resolve(evaluate={"k": []})


def test_eta_needs_a_divergence():
    with pytest.raises(SettingsError, match=r"needs objective\.anchors\.rehearsal\.divergence"):
        resolve(method="grpo", objective={"eta": 0.1})


def test_the_definition_form_needs_jensen_shannon():
    with pytest.raises(SettingsError, match="js_definition needs"):
        resolve(objective={"js_definition": True, "divergence": "forward_kl"})


def test_an_overlong_buffer_of_no_token_is_refused_and_not_ignored():
    with pytest.raises(SettingsError, match="is less than one token"):
        resolve(method="dapo", sampling={"max_tokens": 2})
    assert resolve(method="dapo", sampling={"max_tokens": 3}).objective.overlong_buffer == 0.2


@pytest.mark.parametrize(
    "shaped",
    [
        {"objective": {"overlong_buffer": 0.5}},
    ],
)
def test_an_advantage_that_counts_right_answers_has_no_shaped_rewards(shaped):
    assert resolve(**shaped).objective.advantage.chosen == "group"
    objective = {**shaped.get("objective", {}), "advantage": {"kind": "maxrl"}}
    with pytest.raises(SettingsError, match=r"other than 0 and 1, .*'maxrl' counts right answers"):
        resolve(**{**shaped, "objective": objective})


def test_there_are_no_more_minibatches_than_problems():
    with pytest.raises(SettingsError, match="minibatches=5, problems_per_step=4"):
        resolve(train={"minibatches": 5, "problems_per_step": 4})


@pytest.mark.parametrize("betas", [[0.9, 1.0], [-0.1, 0.9]])
def test_betas_lie_below_one(betas):
    with pytest.raises(SettingsError, match="betas must lie in"):
        resolve(train={"betas": betas})


@pytest.mark.parametrize(
    ("method", "rehearses", "reference", "pool"),
    [
        ("grpo", False, False, False),
        ("dapo", False, False, False),
        ("rkl", False, True, False),
        ("alpha", True, False, True),
        ("dph_f", True, False, True),
        ("dph_js", True, False, True),
        ("dph_js_definition", True, True, True),
        ("maxrl", False, False, False),
        ("ucpo", False, False, False),
        ("bbg", False, False, True),
        ("alpha_dpg", False, True, True),
        ("flowrl", False, True, False),
    ],
)
def test_only_the_methods_that_need_them_get_a_pool_and_a_reference_model(
    method, rehearses, reference, pool
):
    recipe = resolve(method=method)
    assert recipe.objective.rehearses is rehearses
    assert recipe.objective.needs_reference_model is reference
    assert recipe.needs_pool is pool


def test_every_setting_has_a_one_line_meaning():
    assert all(meaning and "\n" not in meaning for _, meaning in known_keys())


def test_the_method_names_of_the_schema_are_those_of_the_table():
    for method in METHODS:
        assert resolve(method=method).method == method
    with pytest.raises(SettingsError, match=r"one of 'grpo', .*'dhp_f'; did you mean 'dph_f'"):
        resolve(method="dhp_f")


@pytest.mark.parametrize(
    ("advantage", "needed"),
    [
        ({"kind": "pass_at_k", "k": 8}, 9),
        ({"kind": "pkpo", "k": 9}, 9),
        ({"kind": "pkpo", "k": 8, "baseline": "leave_one_out"}, 9),
    ],
)
def test_a_group_is_large_enough_for_the_subsets_of_an_advantage(advantage, needed):
    with pytest.raises(SettingsError, match=f"k={advantage['k']} .*at least {needed} samples"):
        resolve(method="grpo", objective={"advantage": advantage})
    train = {"samples_per_problem": needed}
    assert resolve(method="grpo", objective={"advantage": advantage}, train=train)


def test_the_k_of_an_advantage_may_be_written_as_a_whole_float():
    recipe = resolve(method="pass_at_k", objective={"advantage": {"k": 2.0}})
    assert recipe.objective.advantage.parameters == {"k": 2}
    for k in (2.5, "2", 0):
        with pytest.raises(SettingsError, match=r"objective\.advantage"):
            resolve(method="pass_at_k", objective={"advantage": {"k": k}})

import pytest
from pydantic import ValidationError

from dph.errors import SettingsError
from dph.recipe import METHODS, STRENGTHS, resolve_recipe
from dph.recipe.keys import known_keys
from dph.recipe.section import flat

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


TRAIN = {"train": "t.jsonl"}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"train": {"steps": "10"}}, r"train\.steps: .*integer.*'10'"),
        ({"data": TRAIN | {"chat": 1}}, r"data\.chat"),
        *(
            ({"train": {"learning_rate": rate}}, r"train\.learning_rate")
            for rate in (float("nan"), float("inf"), -1.0, 0.0)
        ),
        ({"data": TRAIN | {"math_phrases": [" "]}}, "math_phrases"),
        ({"presample": {"threshold": 9}}, "threshold=9, samples=8"),
        ({"evaluate": {"k": [1, 64]}}, "k is at most samples, got k=64, samples=32"),
        ({"evaluate": {"k": []}}, r"evaluate\.k"),
        (
            {"method": "grpo", "objective": {"eta": 0.1}},
            r"needs objective\.anchors\.rehearsal\.divergence",
        ),
        ({"objective": {"js_definition": True, "divergence": "forward_kl"}}, "js_definition needs"),
        (
            {"train": {"minibatches": 5, "problems_per_step": 4}},
            "minibatches=5, problems_per_step=4",
        ),
        ({"train": {"betas": [0.9, 1.0]}}, "betas must lie in"),
        ({"train": {"betas": [-0.1, 0.9]}}, "betas must lie in"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(sections, message):
    with pytest.raises(SettingsError, match=message):
        resolve(**sections)


def test_threshold_and_k_follow_the_samples():
    for samples, threshold in ((1, 1), (4, 4), (8, 7), (16, 14), (32, 28)):
        assert resolve(presample={"samples": samples}).presample.threshold == threshold
    for samples, ks in ((1, (1,)), (8, (1, 8)), (20, (1, 8, 16))):
        assert resolve(evaluate={"samples": samples}).evaluate.k == ks


@pytest.mark.parametrize(("own", "seed"), [({}, 3), ({"seed": 0}, 0), ({"seed": 7}, 7)])
def test_the_seed_of_the_pool_is_the_recipes_unless_it_has_its_own(own, seed):
    assert resolve(seed=3, presample=own).presampling_seed == seed


def test_an_overlong_buffer_of_no_token_is_refused_and_not_ignored():
    with pytest.raises(SettingsError, match="is less than one token"):
        resolve(method="dapo", sampling={"max_tokens": 2})
    assert resolve(method="dapo", sampling={"max_tokens": 3}).objective.overlong_buffer == 0.2


def test_an_advantage_that_counts_right_answers_has_no_shaped_rewards():
    shaped = {"overlong_buffer": 0.5}
    assert resolve(objective=shaped).objective.advantage.chosen == "group"
    with pytest.raises(SettingsError, match=r"other than 0 and 1, .*'maxrl' counts right answers"):
        resolve(objective={**shaped, "advantage": {"kind": "maxrl"}})


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
        ("flowrl", False, True, False),
        ("entropy_bonus", False, False, False),
        ("exact_rkl", False, True, False),
        ("exact_fkl", False, True, False),
    ],
)
def test_only_the_methods_that_need_them_get_a_pool_and_a_reference_model(
    method, rehearses, reference, pool
):
    recipe = resolve(method=method)
    assert recipe.objective.rehearses is rehearses
    assert recipe.objective.needs_reference_model is reference
    assert recipe.needs_pool is pool


def test_every_setting_is_listed_once_with_a_one_line_meaning():
    assert all(meaning and "\n" not in meaning for _, meaning in known_keys())
    keys = [key for key, _ in known_keys()]
    assert len(keys) == len(set(keys))
    assert "data.sets.*.path" in keys


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


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_nothing_but_plain_settings(method):
    named = resolve_recipe({**MINIMAL, "method": method})
    spelled_out = resolve_recipe({**MINIMAL, **METHODS[method], "method": method})
    assert named == spelled_out


def test_the_recipe_wins_over_its_method():
    recipe = resolve_recipe({**MINIMAL, "method": "dph_f", "objective": {"eta": 0.3}})
    anchor = recipe.objective.anchors["rehearsal"]
    assert (anchor.weight, anchor.divergence) == (0.3, "forward_kl")


@pytest.mark.parametrize(
    ("method", "eta"),
    [("alpha", 0.01), ("dph_f", 0.01), ("dph_js", 0.2), ("dph_js_definition", 0.2)],
)
def test_the_coefficients_are_those_of_the_paper(method, eta):
    assert METHODS[method]["objective"]["anchors"]["rehearsal"]["weight"] == eta


def test_grpo_clips_symmetrically_and_dapo_higher_above():
    assert METHODS["grpo"]["objective"] == {"surrogate": {"clip_low": 0.2, "clip_high": 0.2}}
    assert METHODS["dapo"]["objective"]["surrogate"]["clip_high"] == 0.28
    assert METHODS["dapo"]["objective"]["dynamic_sampling"]


@pytest.mark.parametrize("method", [name for name, key in STRENGTHS.items() if key])
def test_a_strength_is_a_setting_of_its_method(method):
    settings = flat(resolve_recipe({**MINIMAL, "method": method}).model_dump())
    assert isinstance(dict(settings)[STRENGTHS[method]], float | int)


def test_flowrl_has_the_beta_and_the_mean_over_answers_of_its_paper():
    # arXiv:2509.15207; beta = 15 in the authors' code, and a mean over answers, not tokens
    objective = resolve_recipe({**MINIMAL, "method": "flowrl"}).objective
    assert objective.advantage.parameters == {"beta": 15.0, "scale": "std"}
    assert (objective.surrogate.kind, objective.reduction) == ("flow_balance", "sequence_mean")
    assert objective.surrogate.parameters == {"clip_low": 0.2, "clip_high": 0.2}


SETS = {"model": {"path": "m"}, "data": {"train": "t", "sets": {"dev": "d", "test": "e"}}}


def evaluation(**evaluate):
    return resolve_recipe({**SETS, "evaluate": evaluate}).evaluate


def test_nothing_is_measured_during_training_unless_it_is_asked_for():
    settings = evaluation()
    assert (settings.every, settings.keep_best, settings.token_details) == (0, None, 0)
    assert settings.best_by is None


def test_k_follows_the_samples_and_the_sets_are_all_of_them():
    assert evaluation(every=5, during={"samples": 4}).during.k == (1,)
    assert evaluation(every=5, during={"samples": 8}).during.k == (1, 8)
    assert evaluation(every=5).during_sets(["dev", "test"]) == ("dev", "test")
    assert evaluation(every=5, during={"sets": ["test"]}).during_sets(["dev", "test"]) == ("test",)


def test_the_best_checkpoint_is_so_by_all_sets_or_by_one():
    for score, by in (("mean", (None, "mean")), ("dev/greedy", ("dev", "greedy"))):
        assert evaluation(every=1, keep_best=score).best_by == by


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"keep_best": "loss"}, "should be greedy, mean or pass_at_<k>, .*got 'loss'"),
        ({"keep_best": "mean"}, "keep_best='mean' needs every > 0"),
        ({"result": "best"}, "result='best' needs keep_best"),
        ({"result": "last"}, "'newest' or 'best'"),
        (
            {"every": 2000, "keep_best": "mean", "result": "best"},
            "evaluate.result='best' measures nothing with evaluate.every=2000, .*train.steps=",
        ),
        ({"every": 1, "keep_best": "pass_at_4"}, r"is not measured: during.k=\[1, 8\]"),
        (
            {"every": 1, "keep_best": "greedy", "during": {"greedy": False}},
            "is not measured: during.greedy=false",
        ),
        (
            {"every": 1, "keep_best": "train/mean"},
            "names the set 'train'; the measured sets are dev, test",
        ),
        ({"every": 1, "during": {"sets": ["x"]}}, "names 'x'; .* has: dev, test"),
        ({"during": {"samples": 2, "compared": 3}}, "compared=3, samples=2"),
        ({"during": {"samples": 2, "k": [4]}}, "got k=4, samples=2"),
        ({"samples": 2, "token_details": 3}, "token_details=3, samples=2"),
        ({"every": -1}, "every"),
    ],
)
def test_what_cannot_be_measured_is_refused(evaluate, message):
    with pytest.raises(SettingsError, match=message):
        evaluation(**evaluate)


def test_without_a_set_there_is_nothing_to_measure():
    table = {**SETS, "data": {"train": "t"}, "evaluate": {"every": 3}}
    with pytest.raises(SettingsError, match=r"evaluate.every=3 measures nothing: name a set"):
        resolve_recipe(table)


def test_kept_samples_are_all_none_or_so_many_problems():
    for kept in ("all", "none", 1, 64):
        assert resolve_recipe({**SETS, "train": {"keep_samples": kept}}).train.keep_samples == kept
    for kept in ("some", 0, -1, 1.5, True):
        with pytest.raises(SettingsError, match=r"keep_samples: should be 'all', 'none' or a num"):
            resolve_recipe({**SETS, "train": {"keep_samples": kept}})

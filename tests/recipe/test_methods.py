import pytest

from dph.recipe import METHODS, STRENGTHS, resolve_recipe
from dph.recipe.keys import flat

MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


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


def test_the_covariance_methods_have_the_shares_and_bounds_of_their_paper():
    # arXiv:2505.22617, section 4.3: r = 2e-4 between 1 and 5; k = 2e-3 (7B), weight 1, no clipping
    surrogate = resolve_recipe({**MINIMAL, "method": "clip_cov"}).objective.surrogate
    assert surrogate.kind == "clip_cov"
    assert {"share": 2e-4, "cov_low": 1.0, "cov_high": 5.0}.items() <= surrogate.parameters.items()
    objective = resolve_recipe({**MINIMAL, "method": "kl_cov"}).objective
    penalty = objective.penalties["kl_cov"]
    assert (objective.surrogate.kind, penalty.weight) == ("unclipped", 1.0)
    assert penalty.parameters == {"share": 2e-3}


def test_flowrl_has_the_beta_and_the_mean_over_answers_of_its_paper():
    # arXiv:2509.15207; beta = 15 in the authors' code, and a mean over answers, not tokens
    objective = resolve_recipe({**MINIMAL, "method": "flowrl"}).objective
    assert objective.advantage.parameters == {"beta": 15.0, "scale": "std"}
    assert (objective.surrogate.kind, objective.reduction) == ("flow_balance", "sequence_mean")
    assert objective.surrogate.parameters == {"clip_low": 0.2, "clip_high": 0.2}


@pytest.mark.parametrize(
    ("method", "reads"),
    [
        *(("entropy_bonus", False), ("exact_rkl", True), ("exact_fkl", True), ("kl_cov", False)),
        *(("bbg", False), ("alpha_dpg", True), ("flowrl", True)),
    ],
)
def test_only_methods_that_compare_with_the_initial_policy_load_it(method, reads):
    assert resolve_recipe({**MINIMAL, "method": method}).objective.needs_reference_model is reads

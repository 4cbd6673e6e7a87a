import inspect
from itertools import product
from pkgutil import resolve_name
from typing import Literal, get_args, get_origin

import pytest

from dph.loss import divergences
from dph.recipe import ObjectiveSettings
from dph.recipe.terms import ADVANTAGES, DIVERGENCES, PENALTIES, SURROGATES, checked_parameters
from minimal_recipe import require_refused, resolved

ROWS = {
    name: row
    for table in (ADVANTAGES, SURROGATES, PENALTIES, DIVERGENCES)
    for name, row in table.items()
}


def objective(overrides="", **terms):
    return resolved(overrides, objective=terms).objective


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_says_the_parameters_and_defaults_that_the_formula_itself_has(row):
    formula = resolve_name(row.path)
    signature = inspect.signature(formula).parameters.values()
    own = {p.name: p.default for p in signature if p.default is not p.empty}
    said = {name: field.default for name, field in row.parameters.model_fields.items()}
    assert said == own
    assert row.reads_reference == getattr(formula, "reads_reference", False)
    assert row.reads == getattr(formula, "reads", frozenset())


def choices(field):
    """The default, what is near the bounds, and numbers that others may have to be below."""
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    found = {field.default, 1, 2, 6.0, 0.5}
    for bound in field.metadata:
        for attribute, step in (("ge", 0), ("gt", 1e-3), ("le", 0), ("lt", -1e-3)):
            if (value := getattr(bound, attribute, None)) is not None:
                found.add(value + step)
    return found


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_a_recipe_accepts_of_a_term_the_formula_accepts(row):
    fields = row.parameters.model_fields
    accepted = 0
    for values in product(*(choices(field) for field in fields.values())):
        try:
            own = checked_parameters({"it": row}, "it", dict(zip(fields, values, strict=True)))
        except ValueError:
            continue
        resolve_name(row.path)(**own)
        accepted += 1
    assert accepted


def test_divergences_have_one_name_in_recipes_and_in_the_loss():
    rows = {name: resolve_name(row.path) for name, row in DIVERGENCES.items()}
    assert list(rows.items()) == list(divergences.DIVERGENCES.items())


def rehearsal(divergence="jensen_shannon", **terms):
    return {"anchors": {"rehearsal": {"divergence": divergence, **terms}}}


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"advantage": {"kind": "pkpo", "k": 1}}, r"advantage: k must be at least 2 with baseline"),
        (rehearsal(form="k3"), "'jensen_shannon' has no parameter 'form'; it takes"),
        ({"surrogate": {"clip_low": 3}}, r"surrogate\.clip_low: .*less than 1, got 3"),
        (rehearsal("forward_k"), r"no .forward_k.: .*did you mean .forward_kl."),
        (
            {"eta": 0.1, "anchors": {"rehearsal": {"weight": 0.2}}},
            r"eta=0\.1 is short for anchors\.rehearsal\.weight",
        ),
    ],
)
def test_what_does_not_fit_is_refused_under_its_name_before_anything_runs(terms, why):
    require_refused(why, objective=terms)


def test_another_divergence_drops_what_the_method_set_and_the_same_term_keeps_it():
    settings = objective("method=alpha", **rehearsal("forward_kl")).anchors["rehearsal"]
    assert (settings.weight, settings.parameters) == (0.01, {"form": "k3"})
    surrogate = objective("method=dapo", surrogate={"kind": "clipped"}).surrogate
    assert surrogate.parameters["clip_high"] == 0.28
    assert not objective(divergence="none").rehearses


def test_rkl_is_unbiased_and_a_kl_penalty_that_does_not_say_its_estimator_is_k3_as_ever():
    def estimator(method, **terms):
        found = objective(f"method={method}", **terms)
        return found.penalties["kl"].parameters["estimator"]

    assert estimator("rkl") == estimator("rkl", kl_coefficient=0.3) == "unbiased"
    assert estimator("grpo", kl_coefficient=0.3) == "k3"
    assert estimator("rkl", kl_estimator="k3") == "k3"


def test_there_may_be_several_anchors_each_with_a_pool_of_its_own():
    old = {"divergence": "alpha", "weight": 0.1, "samples": "pool:elsewhere", "per_step": 4}
    anchors = objective(anchors={"old": old}).anchors
    assert list(anchors) == ["rehearsal", "old"]  # the method's own, and the recipe's
    assert (anchors["old"].pool.name, anchors["old"].per_step) == ("elsewhere", 4)
    for samples, needs in (("pool:elsewhere", False), ("pool", True)):
        terms = {"anchors": {"old": {**old, "samples": samples}}}
        assert resolved("method=grpo", objective=terms).needs_pool is needs


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ({"clip_low": 0.1}, {"surrogate": {"clip_low": 0.1}}),
        ({"advantage_scale": "none"}, {"advantage": {"scale": "none"}}),
        (
            {"kl_coefficient": 0.3, "kl_estimator": "k2"},
            {"penalties": {"kl": {"weight": 0.3, "estimator": "k2"}}},
        ),
        (
            {"divergence": "alpha", "alpha": 0.3, "eta": 2.0, "forward_kl_form": "nll"},
            {"anchors": {"rehearsal": {"divergence": "alpha", "alpha": 0.3, "weight": 2.0}}},
        ),
        (
            {"divergence": "jensen_shannon", "js_definition": True, "eta": 1.0},
            {"anchors": {"rehearsal": {"divergence": "jensen_shannon_definition", "weight": 1.0}}},
        ),
    ],
)
def test_short_names_stand_for_terms(short, long):
    assert ObjectiveSettings(**short) == ObjectiveSettings(**long)


def test_a_term_needs_the_initial_policy_where_it_says_so_or_acts_on_new_samples():
    def reads(**terms):
        return objective("method=grpo", **terms).needs_reference_model

    assert reads(surrogate={"kind": f"{__name__}:Reading"})
    assert not reads(surrogate={"kind": f"{__name__}:resolved"})
    anchor = {"weight": 0.1, "samples": "pool:elsewhere"}
    assert reads(anchors={"mine": {**anchor, "divergence": f"{__name__}:OnPolicy"}})
    assert not reads(anchors={"mine": {**anchor, "divergence": f"{__name__}:resolved"}})


class Reading:
    reads_reference = True


class OnPolicy:
    def on_policy(self, log_ratio, ratio):
        return ratio * log_ratio


def test_a_term_of_ones_own_takes_whatever_it_takes():
    anchor = {"divergence": "somewhere:mine", "weight": 0.1, "sharpness": 3}
    settings = objective(anchors={"rehearsal": anchor}).anchors["rehearsal"]
    assert settings.parameters == {"sharpness": 3}

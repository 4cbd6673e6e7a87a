import pytest

from dph.errors import SettingsError
from dph.recipe import METHODS, STRENGTHS, resolve_recipe
from dph.recipe.keys import flat
from lab.quickstart.recipes import Size, parse_contender, quickstart_recipe
from lab.worlds import world_kind
from lab.worlds.sql.kind import sql_settings
from lab.worlds.sql.world import design_world


def recipe_of(label, tmp_path):
    return quickstart_recipe(
        parse_contender(label),
        sql_settings(design_world(tmp_path / "world", seed=0)),
        base_model=tmp_path / "base_model",
        pool=tmp_path / "pool",
        seed=3,
        size=Size(),
    )


def weight_of(recipe):
    terms = {**recipe.objective.penalties, **recipe.objective.anchors}
    return sum(term.weight for term in terms.values())


def test_every_method_has_a_strength_or_says_that_it_has_none():
    assert set(STRENGTHS) == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_a_label_chooses_the_method(method, tmp_path):
    recipe = recipe_of(method, tmp_path)
    assert recipe.method == method
    assert recipe.seed == 3
    if (strength := world_kind("sql").strengths.get(method)) is None:
        minimal = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}
        assert weight_of(recipe) == weight_of(resolve_recipe({**minimal, "method": method}))
    else:
        assert dict(flat(recipe.model_dump()))[STRENGTHS[method]] == strength


def test_a_label_sets_the_strength_and_the_optimizer(tmp_path):
    assert recipe_of("rkl@0.25", tmp_path).objective.penalties["kl"].weight == 0.25
    assert recipe_of("dph_js@2", tmp_path).objective.anchors["rehearsal"].weight == 2.0
    slow = recipe_of("dph_f@2+slow", tmp_path)
    assert (slow.train.learning_rate, slow.train.eps) == (2e-4, 1e-5)
    assert slow.objective.anchors["rehearsal"].weight == 2.0
    assert slow.name == "dph_f_2_slow"


def test_a_method_that_draws_nothing_is_given_no_problems_to_draw(tmp_path):
    assert recipe_of("consolidation", tmp_path).train.problems_per_step == 0
    assert recipe_of("dph_broad", tmp_path).train.problems_per_step == Size().problems_per_step


def test_methods_differ_in_nothing_but_the_method(tmp_path):
    grpo, dph = (recipe_of(label, tmp_path) for label in ("grpo", "dph_f"))
    for section in ("model", "data", "sampling", "evaluate", "presample"):
        assert getattr(grpo, section) == getattr(dph, section)
    problems = {"problems"}
    assert grpo.train.model_dump(exclude=problems) == dph.train.model_dump(exclude=problems)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("ppo", "unknown method 'ppo'; choose from grpo, dapo"),
        ("grpo@1", "grpo has no strength to set"),
        ("rkl@much", "a strength is a number, got 'much'"),
        ("rkl@-1", "at least 0 and finite"),
        ("rkl@nan", "at least 0 and finite"),
        ("grpo+quick", "unknown optimizer 'quick'"),
        ("grpo+", "unknown optimizer ''"),
    ],
)
def test_a_label_that_makes_no_sense_is_refused(label, message):
    with pytest.raises(SettingsError, match=message.replace("+", r"\+")):
        parse_contender(label)

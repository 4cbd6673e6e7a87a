"""The keys of a recipe, where several terms have a parameter of the same name."""

from dph.recipe.keys import known_keys, term_parameters
from dph.recipe.objective import AdvantageSettings


def test_a_parameter_of_several_terms_is_one_key_that_names_them_all():
    keys = dict(known_keys())
    meaning = keys["objective.advantage.k"]
    assert meaning == (
        "the k of Pass@k (kind pass_at_k, pkpo); the k of Pass@k (default 16) (kind bbg, bbg_group)"
    )
    assert "(kind group, f_grpo, ucpo, " in keys["objective.advantage.scale"]


def test_the_parameters_of_one_term_have_its_own_defaults():
    assert term_parameters(AdvantageSettings)["k"][1] == 4
    found = term_parameters(AdvantageSettings, "bbg")
    assert {name: default for name, (_, default) in found.items()} == {
        "k": 16,
        "tau": 0.01,
        "scale": "std",
    }
    assert term_parameters(AdvantageSettings, "my_module:mine") == {}

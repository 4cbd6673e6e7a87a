import pytest

from dph.recipe import METHODS
from dph.results.vocabulary import chosen_ks, method_label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("base", "Base model"),
        ("dph_js_definition", "DPH-JS definition"),
        ("dph_js", "DPH-JS"),
        ("dph_js@1.0", "DPH-JS 1.0"),
        ("rkl_0.3", "RKL 0.3"),
        ("pass_at_k_4", "Pass@k training 4"),
        ("maxrl", "MaxRL"),
        ("alphabet", "alphabet"),
        ("alpha_0.5", "Alpha 0.5"),
        ("flowrl", "FlowRL"),
        ("my_method", "my_method"),
    ],
)
def test_methods_are_called_as_people_write_them(name, label):
    assert method_label(name) == label


def test_the_usual_ks_are_shown_if_they_are_there():
    assert chosen_ks({"1": 0, "8": 0, "16": 0, "32": 0}) == ["8", "16"]
    assert chosen_ks({"1": 0, "4": 0}) == ["4"]
    assert chosen_ks({"1": 0, "8": 0, "16": 0}, [1, 16]) == ["1", "16"]


@pytest.mark.parametrize("name", METHODS)
def test_every_named_method_has_a_label(name):
    assert method_label(name) != name

import pytest

from dph_corpus.signals.javascript import javascript_facts
from dph_corpus.signals.words import SignalError


def test_functions_variables_and_exports_are_counted():
    facts = javascript_facts(
        "var a = 1, b = function () {}, c;\nfunction F() { return a; }\nclass D {}\n"
        "module.exports.e = 2;\nmodule.exports.g = () => a;\n"
    )
    # functions: b, F, g; variables: a, c, e; simple: a, c, e and one return; one class
    assert (facts.functions, facts.variables, facts.no_logic) == (3, 3, 3 + 4 + 1)
    assert facts.statements == 5
    assert (facts.legal_variables, facts.legal_functions, facts.legal_classes) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("text", ["a?.b", "x ?? y", "class A { b = 1 }", "try {} catch {}", "("])
def test_what_is_newer_than_2017_does_not_parse(text):
    assert javascript_facts(text) is None


def test_a_module_that_is_none_is_read_as_a_script():
    assert javascript_facts("var important = 010;") is not None


def test_what_breaks_the_parser_is_a_failure():
    with pytest.raises(SignalError, match="characters"):
        javascript_facts("x;" * 1_600_000)
    with pytest.raises(SignalError, match="RecursionError"):
        javascript_facts("[" * 20_000)

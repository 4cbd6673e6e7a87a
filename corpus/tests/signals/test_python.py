import pytest

from dph_corpus.signals.python import parse_python, prose_length, python_facts


def facts(text):
    return python_facts(parse_python(text))


def test_functions_classes_and_their_attributes_are_counted():
    found = facts(
        "class A:\n    x = 1\n    y: int\n    class B:\n        z = 2\n"
        "def f(a):\n    return a\nasync def g(b):\n    def h(): pass\n"
    )
    assert (found.functions, found.classes, found.class_attributes) == (2, 2, 2)
    assert (found.one_line_returns, found.plain_returns) == (1, 1)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("x = 1", True),
        ("x.y = 1", False),
        ("a, b = 1, 2", False),
        ("x: int = 1", False),
        ("x += 1", False),
        ("for i in y: pass", True),
        ("def f(a): pass", True),
        ("def f(*a, b): pass", False),
        ("async def f(a): pass", False),
        ("if 1:\n    x = 1", True),
    ],
)
def test_what_counts_as_a_variable(text, has):
    assert facts(text).has_variable is has


def test_prose_is_doc_strings_on_lines_apart_and_comments_without_their_marks():
    text = '"""Top."""\ndef f():\n    """Inner."""\n# a #b\n# c\n'
    # by kind: "Inner." (function), "Top." (module), then " a b" and " c"
    expected = "Inner.\nTop.\n a b c"
    assert prose_length(text, facts(text), None) == len(expected)
    assert prose_length(text, facts(text), ("# a #b", "# c")) == len(expected)


@pytest.mark.parametrize(
    "text", ["print 'a'", "\ufeffx = 1", "x = (", "\x00", "(" * 500, "\ud800", "match ="]
)
def test_what_does_not_parse_has_no_tree(text):
    assert parse_python(text) is None


def test_a_long_chain_of_operators_parses():
    assert parse_python("x = " + " + ".join(["1"] * 4000)) is not None

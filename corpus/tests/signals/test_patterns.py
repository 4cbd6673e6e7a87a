"""Expressions that cannot backtrack without end match what the plain ones do."""

import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals.c_family import (
    C_FAMILY,
    CSHARP,
    JAVA,
    accessible_share,
    count_go_no_logic,
    has_variable,
)

C_FUNCTION = r"\b((?:[a-zA-Z_]\w*\s*(?:\*+)?\s+)+(?:\*?\s*[a-zA-Z_]\w*)\((?:[^)]*)\)\s*)"
C_VARIABLE = (
    r"\b((?:\w+(?:\s+\w+)?)\s+(?:(?:\*+)?\s*[\w\[\]]+\s*(?:=\s*[^;]*)?"
    r"(?:,\s*(?:\*+)?\s*[\w\[\]]+\s*(?:=\s*[^;]*)?)*)\s*;)"
)
CSHARP_FUNCTION = (
    r"^\s*((?:(?:public|protected|private|internal)\s+)?"
    r"(?:(?:static|virtual|override|abstract|async)\s+)?"
    r"(?:(?!\s*(?:public|private|protected|if|else)\s*)(?:<\w+>)?\s*\w+\s+)(?:\w+\s*)(?:\([^\)]*\)))"
)
TOKENS = [
    *("int", "x", "*", "**", "foo", "bar", "(", ")", ",", ";", "=", "[3]", "\n", "if", "else"),
    *("public", "static", "<T>", "return", "var", "1", ":=", " ", "  "),
]
CODE = st.lists(st.sampled_from(TOKENS), max_size=18).map("".join)


@given(CODE)
def test_functions_of_c_are_those_of_the_plain_expression(code):
    plain = [match.span() for match in regex.finditer(C_FUNCTION, code)]
    assert C_FAMILY.count("functions", code) == len(plain)


@given(CODE)
def test_c_has_a_variable_where_the_plain_expression_finds_one(code):
    assert has_variable(code) == bool(regex.search(C_VARIABLE, code))


@given(CODE)
def test_functions_of_csharp_are_those_of_the_plain_expression(code):
    plain = regex.findall(CSHARP_FUNCTION, code, regex.MULTILINE)
    assert CSHARP.count("functions", code) == len(plain)


def test_words_far_apart_do_not_stall_the_search():
    begun = time.thread_time()
    assert C_FAMILY.count("functions", "word    " * 300) == 0
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize(
    ("code", "count"),
    [("int f(void);", 1), ("static char *g(a, b) { return h(1); }", 2), ("x = f(1);", 0)],
)
def test_calls_after_a_word_look_like_functions_in_c(code, count):
    assert C_FAMILY.count("functions", code) == count


def test_java_finds_methods_variables_and_classes():
    code = (
        "class A {\n  private int x = 1;\n  public int f(int a) throws E {\n    return x;\n  }\n}\n"
    )
    kinds = ("functions", "variables", "classes", "simple_returns", "imports")
    assert [JAVA.count(kind, code) for kind in kinds] == [1, 1, 1, 1, 0]
    assert accessible_share(code) == 1 / 2


def test_of_a_bracketed_import_of_go_only_the_opening_line_counts():
    code = 'import (\n"fmt"\n"os"\n)\nimport "io"\nfunc f() {\nreturn\n}\n'
    # two imports, one function, one return
    assert count_go_no_logic(code) == 4

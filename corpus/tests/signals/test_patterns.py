import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from case_tables import table
from dph_corpus.signals.c_family import (
    C_FAMILY,
    CSHARP,
    JAVA,
    accessible_share,
    count_go_no_logic,
    has_variable,
)
from dph_corpus.signals.javascript import javascript_facts, visible_text
from dph_corpus.signals.own_signals import data_share, parsed_share
from dph_corpus.signals.shared_signals import hexadecimal_characters, holds_encoded_data
from dph_corpus.signals.words import SignalError

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


BASE64 = regex.compile(r"[a-zA-Z0-9+/\n=]{64,}")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("A" * 1025 + " b" * 2000, True),  # longer than 1,024
        ("A" * 1024 + " b" * 2000, False),
        ("A" * 64 + " " + "b " * 20, True),  # 64 of 105 characters
        ("A" * 63 + " " + "b " * 20, False),  # too short to be a run
        ("0x1f,0x2e,0x3d,0x4c,0x5b,0x6a,0x79,0x88\n", True),
        ("\\u0041" * 8, True),
        ("", False),
    ],
)
def test_long_runs_and_files_full_of_them_are_encoded_data(text, holds):
    assert holds_encoded_data(text) is holds


def test_hexadecimal_numbers_count_with_their_prefix():
    assert hexadecimal_characters("a = 0x1F + 0Xab; 0xg") == 8


@given(st.text(st.sampled_from("Ab+/=\n é-"), max_size=400))
def test_runs_of_base64_are_those_of_an_expression(text):
    runs = BASE64.findall(text)
    expected = max(map(len, runs), default=0) > 1024 or sum(map(len, runs)) > 0.5 * len(text)
    assert holds_encoded_data(text) is expected


HEXADECIMAL = regex.compile(r"(?:\b(?:0x|\\x)?[0-9a-fA-F]{2}(?:,|\b\s*)){8,}")
BYTES_WRITTEN = [
    *("12,", "0x3d ", "\\xE9", "1f", "0xAB", "7", "abc", ",", ", ", " ", ")", "é", "\u2003")
]


@given(st.lists(st.sampled_from(BYTES_WRITTEN), max_size=60))
def test_runs_of_hexadecimal_bytes_are_those_of_an_expression(pieces):
    text = "".join(pieces)
    runs = [*HEXADECIMAL.findall(text), *BASE64.findall(text)]
    assert holds_encoded_data(text) is (sum(map(len, runs)) > 0.5 * len(text))


@pytest.mark.parametrize(("text", "share"), table("signals/cases.toml")["parsed"])
def test_statements_that_parse_in_one_dialect_are_counted(text, share):
    assert parsed_share(text) == share


def test_where_nothing_is_to_be_parsed_there_is_no_share_and_what_is_too_deep_does_not_parse():
    assert parsed_share("SELECT {{ column }} FROM t") is parsed_share("-- nothing\n") is None
    assert parsed_share("SELECT " + "(" * 5000) == 0.0


def test_a_dump_is_data():
    assert data_share("INSERT INTO t VALUES (1);") == 1.0
    assert data_share("SELECT 1;") == 0.0


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


def test_scripts_styles_and_comments_are_not_visible():
    text = "<p>a</p><script>b</script><style>c</style><!-- d --><template>e</template>f"
    assert visible_text(text) == "af"


def test_markup_that_is_rejected_has_no_text():
    assert visible_text("<![x<y\n") is None

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments import lex
from pygments.lexers import PythonLexer
from pygments.token import Comment, Literal

import dph
from case_tables import each, table
from dph_corpus.signals.python import parse_python, prose_length, python_facts, split_python
from dph_corpus.signals.split import (
    as_lexed,
    joins_strings,
    long_strings,
    long_word_characters,
    quoted_in_lines,
    split_text,
)


def test_preprocessor_lines_are_code_and_comments_are_not():
    split = split_text("#define A 1\nint x; // one\n/* two */\n", "c")
    assert split.code == "#define A 1\nint x; \n"
    assert split.comments == "// one\n/* two */"


def test_python_that_does_not_parse_is_lexed_all_the_same():
    split = split_text("print 'a'  # b\n", "python")
    assert (split.comments, split.scanned) == ("# b", False)


def test_a_language_without_a_lexer_is_comment_from_the_first_hash_on():
    split = split_text("*.o\n# objects\n*.a\n", "ignore list")
    assert (split.code, split.comments, split.lexed) == ("*.o\n", "# objects\n*.a\n", False)


def test_a_block_ends_where_it_says_so():
    split = split_text("/* a\nb\nc */\nd\n", "ignore list")
    assert (split.code, split.comments) == ("d\n", "/* a\nb\nc */\n")


def test_perl_has_documentation_up_to_cut():
    split = split_text("my $x;\n=pod\ntext\n=cut\n# c\nmy $y;\n", "perl")
    assert split.code == "my $x;\nmy $y;\n"


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "(" * 10_000, "\ufeff" * 3])
@pytest.mark.parametrize("language", ["c", "python", "html", "sql", "perl", "unheard of"])
def test_no_text_breaks_the_split(text, language):
    split = split_text(text, language)
    assert len(split.code) + len(split.comments) <= len(text) + 1


BACKTRACKING = re.compile(r"\s*=\s*[\"'].+?[\"']\s*\+\s*[\"'].+?[\"'].*")


@given(st.text(st.sampled_from("=+'\" ax"), max_size=20))
def test_joined_strings_are_those_that_backtracking_finds(line):
    assert joins_strings(line + "\n") == bool(BACKTRACKING.search(line + "\n"))


def test_quotes_pair_from_the_left_whatever_they_mean():
    assert quoted_in_lines("don't say 'x' or \"y\"\n'open\n'z'") == ["t say ", "y", "z"]


def test_pieces_of_strings_count_from_21_words():
    twenty, more = " ".join("a" * 20), " ".join("a" * 21)
    assert long_strings(f"'{twenty}'", "en") == 0
    assert long_strings(f"'''{more}\n{twenty}\n{more}'''", "en") == 2


def test_long_words_have_over_20_characters_and_no_url():
    key, short, url = "k" * 21, "k" * 20, "https://example.com/aaaaaaaaaa"
    assert long_word_characters([f"{key} {short} {url}"]) == 21


COMMENTS = {Comment.Single, Comment.Hashbang, Literal.String.Doc}
OWN_FILES = sorted(Path(dph.__file__).parent.rglob("*.py"))[::12]


def lexed(text):
    tokens = list(lex(text, PythonLexer()))
    code = "".join(value for kind, value in tokens if kind not in COMMENTS)
    return code, [value for kind, value in tokens if kind in COMMENTS]


CASES = table("signals/python.toml")


@each("text", CASES["split"])
def test_the_split_is_the_lexers(text):
    text = as_lexed(text)
    assert split_python(text) == lexed(text)


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.stem)
def test_the_split_of_our_own_files_is_the_lexers(path):
    text = as_lexed(path.read_text(encoding="utf-8"))
    found = split_python(text)
    assert found is None or found == lexed(text)


PYTHON_PIECES = ("a = ", "f(", *"rbfx)'\"\\#{}\n ", "'''", '"""')


@given(st.lists(st.sampled_from(PYTHON_PIECES), max_size=14))
def test_the_split_of_any_python_is_the_lexers_or_is_left_to_it(pieces):
    text = as_lexed("".join(pieces))
    if parse_python(text) is not None:
        found = split_python(text)
        assert found is None or found == lexed(text)


@each("text", CASES["unsure"])
def test_what_depends_on_more_is_left_to_the_lexer(text):
    assert split_python(as_lexed(text)) is None


def facts(text):
    return python_facts(parse_python(text))


def test_functions_classes_and_their_attributes_are_counted():
    found = facts(
        "class A:\n    x = 1\n    y: int\n    class B:\n        z = 2\n"
        "def f(a):\n    return a\nasync def g(b):\n    def h(): pass\n"
    )
    assert (found.functions, found.classes, found.class_attributes) == (2, 2, 2)
    assert (found.one_line_returns, found.plain_returns) == (1, 1)


@pytest.mark.parametrize(("text", "has"), table("signals/cases.toml")["variables"])
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

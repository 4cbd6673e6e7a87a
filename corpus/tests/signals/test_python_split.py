from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments import lex
from pygments.lexers import PythonLexer
from pygments.token import Comment, Literal

import dph
from dph_corpus.signals.python import parse_python, split_python
from dph_corpus.signals.split import as_lexed

COMMENTS = {Comment.Single, Comment.Hashbang, Literal.String.Doc}
OWN_FILES = sorted(Path(dph.__file__).parent.rglob("*.py"))[::12]


def lexed(text):
    tokens = list(lex(text, PythonLexer()))
    code = "".join(value for kind, value in tokens if kind not in COMMENTS)
    return code, [value for kind, value in tokens if kind in COMMENTS]


CASES = {
    "a hashbang and a comment": "#!/usr/bin/python\nx = 1  # one\n",
    "a doc string": 'def f():\n    """Says \'it\'."""\n    return "# no comment"\n',
    "a triple-quoted argument at the beginning of a line": "f(\n\"\"\"text # x\"\"\"\n, '''y''')\n",
    "raw and byte strings": "a = r'\\\\' + rb\"\\\"#\" + b'''#'''  # c\n",
    "an escaped quote": "a = 'it\\'s # no'  # yes\n",
    "keywords beside quotes": "x = 1 if'#'in'a#'or\"#\"else None  # c\n",
    "a field with brackets in a string": "a = '{x[' + y + ']}'  # c\nb = \"# d\"\n",
    "two brackets before a field": "a = '{{x[\"#\"]}'  # c\n",
    "an empty string": "a = ''  # c\nb = \"\" # d\n",
    "a continued line": "a = 1 + \\\n'''# doc'''\n",
    "an f-string": "a = f'{b!r:>{w}} {c[\"#\"]}'  # c\n",
    "a multi-line f-string": "a = f'''{b\n} # no '''  # c\n",
    "raw strings in triple quotes": "a = r'''\\d '#' \\ '''  # c\nb = rb\"\"\"\\{#}\"\"\"  # d\n",
    "a match": "match x:\n    case _:\n        pass  # c\n",
    "form feeds and unicode": "\x0cé = 'ü'  # ß\n",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_the_split_is_the_lexers(text):
    text = as_lexed(text)
    assert split_python(text) == lexed(text)


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.stem)
def test_the_split_of_our_own_files_is_the_lexers(path):
    text = as_lexed(path.read_text(encoding="utf-8"))
    found = split_python(text)
    assert found is None or found == lexed(text)


PIECES = ("a = ", "f(", *"rbfx)'\"\\#{}\n ", "'''", '"""')


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_the_split_of_any_python_is_the_lexers_or_is_left_to_it(pieces):
    text = as_lexed("".join(pieces))
    if parse_python(text) is not None:
        found = split_python(text)
        assert found is None or found == lexed(text)


UNSURE = {
    "an escaped quote before the end of a doc string": '"""a \\""" b"""\n',
    "a nested f-string": "a = f\"{f'{b}'}\"\n",
    "quotes beside a soft keyword": "match x:\n    case '#', _:\n        pass\n",
    "a raw string with a backslash in triple quotes": "a = r'''\\''' '''\n",
}


@pytest.mark.parametrize("text", UNSURE.values(), ids=UNSURE)
def test_what_depends_on_more_is_left_to_the_lexer(text):
    assert split_python(as_lexed(text)) is None

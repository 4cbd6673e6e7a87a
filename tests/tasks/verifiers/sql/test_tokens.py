import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.tokens import TokenKind, first_word, tokenize


def texts(sql):
    return [token.text for token in tokenize(sql)]


def test_words_literals_names_and_symbols_are_told_apart():
    kinds = [token.kind for token in tokenize("SELECT \"a b\", `c`, [d], 'e', 1.5e3 <> x'41'")]
    assert kinds == [
        TokenKind.WORD,
        TokenKind.QUOTED_NAME,
        TokenKind.SYMBOL,
        TokenKind.QUOTED_NAME,
        TokenKind.SYMBOL,
        TokenKind.QUOTED_NAME,
        TokenKind.SYMBOL,
        TokenKind.STRING,
        TokenKind.SYMBOL,
        TokenKind.NUMBER,
        TokenKind.SYMBOL,
        TokenKind.WORD,
        TokenKind.STRING,
    ]


def test_keywords_in_literals_and_comments_are_no_words():
    words = [token.word for token in tokenize("a 'SELECT' -- FROM\n /* WHERE */ \"IN\" b")]
    assert [word for word in words if word] == ["A", "B"]


def test_a_doubled_quote_belongs_to_its_literal():
    assert texts("'it''s' \"a\"\"b\" [c]]") == ["'it''s'", '"a""b"', "[c]", "]"]


def test_depth_counts_the_open_parentheses():
    assert [(t.text, t.depth) for t in tokenize("a ( b ( c ) ) d ) e")] == [
        ("a", 0), ("(", 0), ("b", 1), ("(", 1), ("c", 2), (")", 1), (")", 0), ("d", 0),
        (")", 0), ("e", 0),
    ]  # fmt: skip


def test_the_apostrophe_of_prose_opens_no_literal():
    assert texts("let's see 'x'") == ["let", "'", "s", "see", "'x'"]
    assert texts("name LIKE'x'") == ["name", "LIKE", "'x'"]


@pytest.mark.parametrize(
    ("sql", "word"),
    [("-- why\n/* how */ with x", "WITH"), ("", ""), ("(select 1)", ""), ("/* open", "")],
)
def test_the_first_word_skips_blanks_and_comments(sql, word):
    assert first_word(sql) == word


@given(st.text(alphabet="aS1 '\"`[]()-/*\n;.,é", max_size=60))
def test_tokens_are_in_order_and_are_the_text_at_their_place(text):
    end = 0
    for token in tokenize(text):
        assert token.start >= end
        assert text[token.start : token.end] == token.text != ""
        end = token.end


@pytest.mark.parametrize("piece", ["'", '"', "[", "`", "(", "/*", "--", "'x", "'' ", "1e", "*/"])
def test_hostile_text_is_read_in_time_that_grows_with_its_length(piece):
    started = time.thread_time()
    for _ in tokenize(piece * 50_000):
        pass
    assert time.thread_time() - started < 5

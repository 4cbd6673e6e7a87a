"""SQL queries in a form in which spelling does not count."""

from collections.abc import Iterator

from dph.tasks.verifiers.sql.tokens import Token, TokenKind, tokenize

LEAST_TOKENS = 6
"""A shorter query (``SELECT count(*) FROM t``) is anybody's."""

_SAME = {"==": "=", "<>": "!="}


def normalised_queries(text: str) -> Iterator[str]:
    """The statements of ``text`` that are long enough, normalised.

    Comments, white space, the case and quotes of names, AS, and the spelling of ``=`` and ``!=``
    do not count; literals do.

    >>> list(normalised_queries('SELECT "A" AS x FROM t WHERE B<>1; -- why'))
    ['select a x from t where b != 1']
    """
    statement: list[str] = []
    for token in tokenize(text):
        if token.text == ";" and token.kind is TokenKind.SYMBOL:
            yield from _long_enough(statement)
            statement = []
        elif token.word != "AS":
            statement.append(_plain(token))
    yield from _long_enough(statement)


def _plain(token: Token) -> str:
    if token.kind is TokenKind.QUOTED_NAME:
        return token.text[1:-1].lower()
    if token.kind is TokenKind.WORD:
        return token.text.lower()
    return _SAME.get(token.text, token.text)


def _long_enough(statement: list[str]) -> Iterator[str]:
    if len(statement) >= LEAST_TOKENS:
        yield " ".join(statement)

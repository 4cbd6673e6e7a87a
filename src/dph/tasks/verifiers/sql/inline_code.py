"""Statements in inline code: `SELECT name FROM singer`, with one backtick or two."""

import re

from dph.tasks.verifiers.sql.found_statement import ExtractedSQL, is_placeholder
from dph.tasks.verifiers.sql.tokens import TokenKind, tokenize

_LONGEST = 10_000
_OPENING = re.compile(r"(?<!`)(`{1,2})(?=(?:select|with)\s)", re.IGNORECASE)
_RUN = re.compile(r"`++")
# Inside of a statement a backtick may also begin a name: `SELECT `name` FROM singer`.
_NAME = re.compile(r"(?<=[\s(,.=<>])`\w[^`\n]*+`")


def inline_statement(response: str) -> ExtractedSQL | None:
    """The last inline code that is a SELECT or WITH; backticks of its literals do not end it."""
    found: tuple[int, int, int] | None = None
    opening = _OPENING.search(response)
    while opening is not None:
        end = _end(response, opening.end(), len(opening[1]))
        if end is None:  # it is never closed, and so nothing after it is
            break
        found = opening.start(), opening.end(), end
        opening = _OPENING.search(response, end + len(opening[1]))
    if found is None:
        return None
    start, inside, end = found
    statement = response[inside:end].strip().rstrip(";").rstrip()
    return None if is_placeholder(statement) else ExtractedSQL(statement, response[:start])


def _end(response: str, start: int, width: int) -> int | None:
    """Where the run of backticks begins that closes the code, None if there is none."""
    response, position = response[: start + _LONGEST], start
    while True:
        for token in tokenize(response, position):
            if token.text[0] == "`":
                break
            if token.kind is TokenKind.STRING and "\n" in token.text:
                return None
        else:
            return None
        run = _RUN.match(response, token.start)
        name = _NAME.match(response, token.start)
        if run is not None and len(run[0]) == width and name is None:
            return token.start
        position = name.end() if name is not None else token.start + len(run[0] if run else "`")

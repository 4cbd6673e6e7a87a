"""Finding the SQL statement in a response.

Places to look at, in the order given (DEFAULT_SOURCES); the first that holds SQL decides:

1. ``answer``: the last ``<answer>`` element that holds SQL, fenced or bare. The last one may be
   left open.
2. ``fenced``: the last block fenced by ``` or ~~~ and marked ``sql`` (or a dialect) is the
   statement, as it is; without one, the last unmarked block that starts with SELECT or WITH. A
   last fence that is never closed counts. Backticks in a literal or a quoted name are no fence.
3. ``tool_call``: the last ``<tool_call>`` element (or a response that is nothing but a call)
   whose JSON arguments hold ``sql``, ``query``, ``sql_query`` or ``statement``.
4. ``bare``: a statement in the text: the last one that starts a line or follows ``;`` or ``:``,
   else the last in inline code, else the first SELECT or WITH anywhere. It ends at its first ``;``
   outside parentheses and literals. A SELECT that continues a statement (after UNION, or behind the
   list of a WITH) starts none. "with" as an English word starts none: a WITH is followed by a name
   and AS or columns.

What a prompt shows in place of an answer does not count as one: a block of nothing but comments
("-- Your SQL query"), of an ellipsis, or of words such as "your SQL query here".
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from dph.tasks.verifiers.sql.bare_statements import bare_statement
from dph.tasks.verifiers.sql.fences import fenced_statement
from dph.tasks.verifiers.sql.found_statement import ExtractedSQL
from dph.tasks.verifiers.sql.payload import answer_spans, tool_call_statement

__all__ = ["DEFAULT_SOURCES", "ExtractedSQL", "SQLSource", "extract_sql"]


class SQLSource(StrEnum):
    """A place in a response where the statement may stand."""

    ANSWER = "answer"
    FENCED = "fenced"
    TOOL_CALL = "tool_call"
    BARE = "bare"


DEFAULT_SOURCES = tuple(SQLSource)
_LONGEST = 250_000


def extract_sql(
    response: str, sources: Sequence[SQLSource] = DEFAULT_SOURCES
) -> ExtractedSQL | None:
    """The SQL of a response by the module's rules, or None if there is none.

    Of a longer one the last 250,000 characters are searched: no answer takes more than a second.

    >>> extract_sql("steps: keep age > 20 ; SELECT name FROM singer ;").statement
    'SELECT name FROM singer'
    """
    response = response[-_LONGEST:]
    found = (_FINDERS[source](response) for source in sources)
    return next((statement for statement in found if statement is not None), None)


def _answer(response: str) -> ExtractedSQL | None:
    for start, end in answer_spans(response):
        inside = response[start:end]
        found = fenced_statement(inside) or bare_statement(inside)
        if found is not None:
            return ExtractedSQL(found.statement, response[:start] + found.preamble)
    return None


_FINDERS: Mapping[SQLSource, Callable[[str], ExtractedSQL | None]] = MappingProxyType(
    {
        SQLSource.ANSWER: _answer,
        SQLSource.FENCED: fenced_statement,
        SQLSource.TOOL_CALL: tool_call_statement,
        SQLSource.BARE: bare_statement,
    }
)

"""The form of an answer by its structure: what "how many ways of answering are left" counts.

The first that applies: ``cte``, ``exists``, ``nested`` (a subquery in FROM, JOIN or IN), ``set``
(INTERSECT, EXCEPT, UNION), ``alias``, ``plain``. What ``respelt`` changes is seen in no structure:
it counts as ``plain``.
"""

from dph.tasks.styles import sql_style
from dph.tasks.verifiers.sql.tokens import tokenize

_SETS = frozenset(("INTERSECT", "EXCEPT", "UNION"))


def form_of(response: str) -> str:
    """The form of a response, or ``other`` where there is no SQL in it.

    >>> form_of("select name from singer where exists ( select 1 from concert )")
    'exists'
    """
    style = sql_style(response)
    if style in ("cte", "other"):
        return style
    words = {token.word for token in tokenize(response)}
    if "EXISTS" in words:
        return "exists"
    if style != "nested" and words & _SETS:
        return "set"
    return style

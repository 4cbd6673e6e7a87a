"""Five ways of writing the same query, each with a label in front; tokens are set off by blanks."""

from collections.abc import Callable

from dph.lab.worlds.sql.domains import KEY
from dph.lab.worlds.sql.questions import Interpretation


def _comparison(column: str, operator: str, value: str) -> str:
    return f"{column} {operator} {value}"


def _where(reading: Interpretation, prefix: str = "") -> str:
    if not reading.where:
        return ""
    return " WHERE " + " AND ".join(prefix + _comparison(*item) for item in reading.where)


def _order(reading: Interpretation, prefix: str = "") -> str:
    if reading.order is None:
        return ""
    column, direction = reading.order
    return f" ORDER BY {prefix}{column} {direction} LIMIT 1"


def _select(reading: Interpretation, prefix: str = "") -> str:
    if reading.shown is None:
        return "SELECT count ( * )"
    column = prefix + reading.shown
    return f"SELECT {column if reading.aggregate is None else f'{reading.aggregate} ( {column} )'}"


def write_plain(reading: Interpretation) -> str:
    """One flat query; also the form of the gold SQL."""
    join = "" if reading.joined is None else f" JOIN {reading.joined} USING ( {KEY} )"
    return f"{_select(reading)} FROM {reading.table}{join}{_where(reading)}{_order(reading)}"


def write_cte(reading: Interpretation) -> str:
    """The conditions in a common table expression."""
    filtered = f"WITH c AS ( SELECT * FROM {reading.joined or reading.table}{_where(reading)} )"
    source = "c" if reading.joined is None else f"{reading.table} JOIN c USING ( {KEY} )"
    return f"{filtered} {_select(reading)} FROM {source}{_order(reading)}"


def write_nested(reading: Interpretation) -> str:
    """The conditions in a subquery."""
    if reading.joined is not None:
        keys = f"SELECT {KEY} FROM {reading.joined}{_where(reading)}"
        return f"{_select(reading)} FROM {reading.table} WHERE {KEY} IN ( {keys} )"
    inner = f"SELECT * FROM {reading.table}{_where(reading)}{_order(reading)}"
    return f"{_select(reading)} FROM ( {inner} )"


def write_alias(reading: Interpretation) -> str:
    """Every table has an alias and every column is qualified by it."""
    head = f"{_select(reading, 'p . ')} FROM {reading.table} AS p"
    if reading.joined is not None:
        return f"{head} JOIN {reading.joined} AS q USING ( {KEY} ){_where(reading, 'q . ')}"
    return f"{head}{_where(reading, 'p . ')}{_order(reading, 'p . ')}"


def write_steps(reading: Interpretation) -> str:
    """The operations in words first, then the flat query."""
    steps = [f"keep {_comparison(*item)} ;" for item in reading.where]
    if reading.order is not None:
        steps.append(f"sort {' '.join(reading.order)} ;")
    return f"{' '.join(steps)} {write_plain(reading)}"


WRITERS: dict[str, Callable[[Interpretation], str]] = {
    "plain": write_plain,
    "cte": write_cte,
    "nested": write_nested,
    "alias": write_alias,
    "steps": write_steps,
}
STYLES = tuple(WRITERS)


def write_answer(reading: Interpretation, style: str) -> str:
    """The labelled answer, as the base model learns it."""
    return f"{style}: {WRITERS[style](reading)}"

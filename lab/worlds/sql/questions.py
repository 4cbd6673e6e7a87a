"""Compositional questions: their words, their meaning in SQL terms, and five ways of writing it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from lab.worlds.sql.domains import KEY, Domain, DomainColumn, DomainTable

COMPARISONS = {"above": ">", "below": "<", "at least": ">=", "at most": "<="}
EQUALITY = {"is": "="}
DIRECTIONS = {"highest": "DESC", "lowest": "ASC"}
OPERATORS = {**COMPARISONS, **EQUALITY, **DIRECTIONS}
CONFUSED_OPERATORS = {
    "above": ">=",
    "below": "<=",
    "at least": ">",
    "at most": "<",
    "is": "=",
    "highest": "ASC",
    "lowest": "DESC",
}
"""Misreading of each phrase ("is" cannot be misread)."""

AGGREGATES = {"average": "avg", "maximum": "max", "minimum": "min", "total": "sum"}
THRESHOLDS = tuple(range(8, 58, 4))
KINDS = ("list", "count", "aggregate", "superlative", "join", "two_conditions")


@dataclass(frozen=True, slots=True)
class WhereCondition:
    """A comparison in the question's words; a text value carries its quotes."""

    term: str
    phrase: str
    value: str

    def __str__(self) -> str:
        return f"{self.term} {self.phrase} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about one database; columns go by their business terms."""

    domain: Domain
    kind: str
    table: str
    shown: str | None = None
    """The term of the column that is asked for; None for a count."""
    aggregate: str | None = None
    conditions: tuple[WhereCondition, ...] = ()
    superlative: tuple[str, str] | None = None
    """(direction phrase, term): ``("highest", "seniority")``."""
    joined: str | None = None
    """The other table, which the condition is about."""

    @property
    def text(self) -> str:
        """The question in words."""
        if self.superlative is not None:
            tail = "with " + " ".join(self.superlative)
        else:
            link = "with" if self.joined is None else f"whose {self.joined} has"
            tail = f"{link} {' and '.join(map(str, self.conditions))}"
        if self.shown is None:
            return f"how many {self.table} {tail}"
        return f"{self.aggregate or 'show'} {self.shown} of {self.table} {tail}"

    @property
    def prompt(self) -> str:
        """Prompt, as the model sees it; it is unique in a world, so it is also the key."""
        return f"{self.domain.schema} | {self.text} ->"

    @property
    def terms(self) -> tuple[str, ...]:
        """The business terms that occur, each once."""
        ordered = self.superlative[1:] if self.superlative else ()
        terms = (self.shown, *(c.term for c in self.conditions), *ordered)
        return tuple(dict.fromkeys(term for term in terms if term is not None))

    @property
    def phrases(self) -> tuple[str, ...]:
        """The operator phrases, as often as they occur."""
        directions = self.superlative[:1] if self.superlative else ()
        return (*(c.phrase for c in self.conditions), *directions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """Reading of a question, in the schema's names and SQL's operators."""

    table: str
    joined: str | None
    shown: str | None
    aggregate: str | None
    where: tuple[tuple[str, str, str], ...]
    order: tuple[str, str] | None


def read(
    question: Question, columns: Mapping[str, str], operators: tuple[str, ...]
) -> Interpretation:
    """Resolve terms by ``columns``, phrases by ``operators`` (in the order of ``phrases``)."""
    where = tuple(
        (columns[condition.term], operator, condition.value)
        for condition, operator in zip(question.conditions, operators, strict=False)
    )
    order = None
    if question.superlative is not None:
        order = (columns[question.superlative[1]], operators[-1])
    return Interpretation(
        table=question.table,
        joined=question.joined,
        shown=None if question.shown is None else columns[question.shown],
        aggregate=None if question.aggregate is None else AGGREGATES[question.aggregate],
        where=where,
        order=order,
    )


def read_correctly(question: Question) -> Interpretation:
    """The reading that the gold SQL is written from."""
    columns = {column.term: column.name for column in question.domain.columns}
    return read(question, columns, tuple(OPERATORS[phrase] for phrase in question.phrases))


def draw_question(domain: Domain, rng: Random) -> Question:
    """Draw a question; it may turn out to have no answer, or one that proves nothing."""
    kind = rng.choice(KINDS)
    table, other = rng.sample(domain.tables, 2)
    if kind == "superlative":
        return _superlative(domain, table, rng)
    if kind == "join":
        return _join(domain, table, other, rng)
    return _filter(domain, kind, table, rng)


def _superlative(domain: Domain, table: DomainTable, rng: Random) -> Question:
    shown = rng.choice(_terms(table.columns))
    ordered = (rng.choice(list(DIRECTIONS)), _other(_terms(table.numeric), shown, rng))
    return Question(
        domain=domain, kind="superlative", table=table.name, shown=shown, superlative=ordered
    )


def _join(domain: Domain, table: DomainTable, other: DomainTable, rng: Random) -> Question:
    return Question(
        domain=domain,
        kind="join",
        table=table.name,
        shown=rng.choice(_terms(table.columns)),
        conditions=(_comparison(rng.choice(_terms(other.numeric)), rng),),
        joined=other.name,
    )


def _filter(domain: Domain, kind: str, table: DomainTable, rng: Random) -> Question:
    shown: str | None = None
    if kind != "count":
        shown = rng.choice(_terms(table.numeric if kind == "aggregate" else table.columns))
    conditions = [_comparison(_other(_terms(table.numeric), shown, rng), rng)]
    if kind == "two_conditions":
        conditions.append(_second_condition(table, conditions[0].term, rng))
    return Question(
        domain=domain,
        kind=kind,
        table=table.name,
        shown=shown,
        aggregate=rng.choice(list(AGGREGATES)) if kind == "aggregate" else None,
        conditions=tuple(conditions),
    )


def _terms(columns: tuple[DomainColumn, ...]) -> list[str]:
    return [column.term for column in columns]


def _other(terms: list[str], taken: str | None, rng: Random) -> str:
    return rng.choice([term for term in terms if term != taken])


def _comparison(term: str, rng: Random) -> WhereCondition:
    return WhereCondition(term, rng.choice(list(COMPARISONS)), str(rng.choice(THRESHOLDS)))


def _second_condition(table: DomainTable, first: str, rng: Random) -> WhereCondition:
    if rng.random() < 0.5:
        return WhereCondition(table.text.term, "is", f"'{rng.choice(table.text.values)}'")
    return _comparison(_other(_terms(table.numeric), first, rng), rng)


# Five ways of writing the same query, each with a label in front; tokens are set off by blanks.


def _written_comparison(column: str, operator: str, value: str) -> str:
    return f"{column} {operator} {value}"


def _where(reading: Interpretation, prefix: str = "") -> str:
    if not reading.where:
        return ""
    return " WHERE " + " AND ".join(prefix + _written_comparison(*item) for item in reading.where)


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
    steps = [f"keep {_written_comparison(*item)} ;" for item in reading.where]
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

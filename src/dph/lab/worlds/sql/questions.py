"""Compositional questions: what is asked, in words, and what it means, in SQL terms."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from dph.lab.worlds.sql.domains import Domain, DomainColumn, DomainTable

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
"""What somebody who misreads a phrase makes of it ("is" cannot be misread)."""

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

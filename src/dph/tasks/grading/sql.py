"""Rows of text-to-SQL answers: ``db_id``, ``gold_sql``, and ``pred_sql`` or ``response``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from dph._base.closing import Closing
from dph.errors import DataError
from dph.records import Outcome, TimedVerdict, Verdict
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier

AnswerColumn = Literal["pred_sql", "response"]
_FILES = (".sqlite", ".sqlite3", ".db")


def answer_column(columns: Sequence[str]) -> AnswerColumn:
    """Which column holds the answers: ``pred_sql`` if it is there, else ``response``."""
    return "response" if "response" in columns and "pred_sql" not in columns else "pred_sql"


def database_path(db_id: str) -> str:
    """Where a database lies below the directory of databases.

    >>> database_path("pets_1"), database_path("/data/pets"), database_path("old/pets.db")
    ('pets_1/pets_1.sqlite', '/data/pets', 'old/pets.db')
    """
    path = Path(db_id)
    is_file = path.is_absolute() or path.suffix in _FILES
    return db_id if is_file else f"{db_id}/{db_id}.sqlite"


class SQLRowGrader(Closing):
    """Grades rows by one of the SQL rules.

    Args:
        databases: holds ``<db_id>/<db_id>.sqlite``; a ``db_id`` that is
            absolute or ends like a database file is its path.
        rule: a name of dph.tasks.verifiers.sql.rules.RULES.
        answers: the column of the answers. ``pred_sql`` is run as it is; from a ``response`` the
            statement is extracted first.
        workers: worker processes.
        timeout: seconds for one statement.

    Raises:
        DataError: ``databases`` is not a directory.
        SettingsError: the rule is unknown, or a number is out of range.
    """

    def __init__(
        self,
        *,
        databases: Path,
        rule: str = "bird",
        answers: AnswerColumn = "pred_sql",
        workers: int = 1,
        timeout: float = 5.0,
    ) -> None:
        if not databases.is_dir():
            raise DataError(f"the databases are no directory: {databases}")
        self._verifier = SQLVerifier(
            databases=databases, rule=rule, workers=workers, timeout=timeout
        )
        self._answers = answers
        self.required = ("db_id", "gold_sql", answers)
        self.settings: Mapping[str, Any] = {
            "verifier": [self._verifier.name, self._verifier.version],
            **self._verifier.own_settings,
            # Where they lie: to hash them all would take longer than most files do to grade.
            "databases": str(databases.resolve()),
            "answers": answers,
        }

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One graded row for each, in order; a value that is not text is BAD_GOLD or NO_ANSWER.

        Raises:
            VerifierError: a worker failed; not: a statement did.
        """
        graded: list[TimedVerdict | None] = []
        pairs: dict[int, SQLPair] = {}
        for index, row in enumerate(rows):
            found = self._pair(row)
            if isinstance(found, SQLPair):
                pairs[index] = found
            graded.append(None if isinstance(found, SQLPair) else TimedVerdict(found, 0.0))
        for index, judged in zip(pairs, self._verifier.judge(list(pairs.values())), strict=True):
            graded[index] = judged
        return [row for row in graded if row is not None]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._verifier.close()

    def _pair(self, row: Mapping[str, Any]) -> SQLPair | Verdict:
        for name in ("db_id", "gold_sql"):
            value = row.get(name)
            if not isinstance(value, str) or not value:
                return _verdict(Outcome.BAD_GOLD, f"{name} is no text: {value!r:.80}")
        answer = row.get(self._answers)
        if not isinstance(answer, str):
            return _verdict(Outcome.NO_ANSWER, f"{self._answers} is no text: {answer!r:.80}")
        database, gold = database_path(row["db_id"]), row["gold_sql"]
        if self._answers == "pred_sql":
            return SQLPair(database, gold, answer, whole=True)
        if found := extract_sql(answer):
            return SQLPair(database, gold, found.statement)
        return _verdict(Outcome.NO_ANSWER, "no SQL in the response")


def _verdict(outcome: Outcome, reason: str) -> Verdict:
    return Verdict(outcome=outcome, reward=0.0, reason=reason)

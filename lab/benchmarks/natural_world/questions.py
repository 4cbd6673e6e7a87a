"""Spider's questions with every form of their queries that was seen to return the same rows."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dph._base.files import write_text
from dph.tasks.sql.data_sets import SQLQuestion, load_spider
from dph.tasks.sql.schema import Schema, read_tables
from lab.benchmarks.natural_world.changed_rows import changed_databases
from lab.benchmarks.natural_world.forms import checked, columns_of, keys_of, rewritten

LARGEST = 1_000_000
"""Databases of more bytes are left out: executing on them would take most of the time."""
_SIGNS = re.compile(r"(?<=\S)[?,.;:!](?=\s|$)")
_QUOTES = re.compile(r"(?<!\w)['\"`]+|['\"`]+(?!\w)")
_TYPESET = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
"""Typographic quotes as plain ones."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the forms of its query; ``split`` is Spider's own."""

    id: str
    split: str
    db_id: str
    text: str
    gold: str
    forms: Mapping[str, str]

    @property
    def query(self) -> tuple[str, str]:
        """The same for questions that ask the same in other words."""
        return self.db_id, self.forms["plain"]


def spider_directory() -> Path:
    """Where Spider lies: ``$DPH_DATA/spider``, or ``../shared/data/spider``.

    Raises:
        SystemExit: it is not there.
    """
    home = os.environ.get("DPH_DATA")
    root = Path(home) if home else Path(__file__).parents[4] / "shared" / "data"
    path = root / "spider"
    if not path.is_dir():
        raise SystemExit(f"needs Spider's questions and databases in {path}; set DPH_DATA")
    return path


def database_path(spider: Path, db_id: str) -> Path:
    """The SQLite file of a database."""
    return spider / "database" / db_id / f"{db_id}.sqlite"


def plain_words(question: str) -> str:
    """A question with blanks around its signs, ``"`` for every quote, its first letter small.

    >>> plain_words("How many singers are from 'New York'?")
    'how many singers are from " New York " ?'
    """
    text = _QUOTES.sub(' " ', question.translate(_TYPESET).strip())
    words = _SIGNS.sub(lambda sign: f" {sign[0]}", " ".join(text.split())).split()
    text = " ".join(words)
    return text[:1].lower() + text[1:]


def load_questions(spider: Path, cache: Path, *, seed: int = 0) -> list[Question]:
    """All questions whose query has a plain form; forms are kept in ``cache``, a file a database.

    A query is executed on its database and on those of ``changed_rows``, which lie in ``cache``.
    """
    schemas = read_tables(spider / "tables.json")
    found: list[Question] = []
    for split in ("train", "dev"):
        by_database: dict[str, list[SQLQuestion]] = {}
        for question in load_spider(spider, split).questions:
            by_database.setdefault(question.db_id, []).append(question)
        for db_id, asked in sorted(by_database.items()):
            if database_path(spider, db_id).stat().st_size <= LARGEST:
                golds = sorted({question.gold_sql for question in asked})
                forms = _forms(spider, schemas[db_id], golds, cache, seed)
                found += _asked(split, asked, forms)
    return found


def _asked(
    split: str, asked: Sequence[SQLQuestion], forms: Mapping[str, Mapping[str, str]]
) -> Iterator[Question]:
    for question in asked:
        if "plain" in forms[question.gold_sql]:
            yield Question(
                id=question.question_id,
                split=split,
                db_id=question.db_id,
                text=plain_words(question.question),
                gold=question.gold_sql,
                forms=forms[question.gold_sql],
            )


def _forms(
    spider: Path, schema: Schema, golds: Sequence[str], cache: Path, seed: int
) -> dict[str, dict[str, str]]:
    """By gold its checked forms, read from the cache or made."""
    file = cache / f"{schema.db_id}.json"
    if file.exists():
        kept: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))["forms"]
        return kept
    database = database_path(spider, schema.db_id)
    others = changed_databases(database, schema, cache / "changed", seed=seed)
    columns, keys = columns_of(schema), keys_of(schema)
    result = {}
    tried, refused = Counter[str](), Counter[str]()
    for gold in golds:
        forms = rewritten(gold, columns, keys)
        outcome = checked(gold, forms, [database, *others])
        result[gold] = dict(outcome.forms)
        tried.update([*outcome.forms, *outcome.refused])
        refused.update(outcome.refused)
    text = json.dumps({"forms": result, "tried": tried, "refused": refused}, indent=0)
    write_text(file, text)
    for path in others:
        path.unlink()
    return result


def as_row(question: Question) -> dict[str, object]:
    """What a file holds of a question."""
    return asdict(question)

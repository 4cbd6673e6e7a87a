"""The paper's prompt for text-to-SQL: schema with example values, evidence, question."""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from heapq import nsmallest
from math import log
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.tasks.sql.schema import Examples, Schema, read_schema, schema_text
from dph.tasks.verifiers.sql.executor import database_uri

# **Source** of the example values: the prompts of OmniSQL (arXiv:2503.02240), which the paper's
# follow. Texts of the database are ranked by BM25 for every run of words of the question, and those
# of which more than 85% stand in the question are shown before the first two values of a column.

_LONGEST_TEXT = 40
_FIRST_VALUES = 2
_HITS_PER_QUERY = 10
_HITS_SHOWN = 20
_LEAST_OVERLAP = 0.85
VALUES_PER_COLUMN = 200_000
"""Distinct values of a column that are searched; bounds the memory of a very large database."""


class ExampleValues:
    """The example values of one database. The file is read once, and only read."""

    def __init__(self, database: Path) -> None:
        if not database.is_file():
            raise DataError(f"there is no database {database}")
        self._first: dict[tuple[str, str], list[Any]] = {}
        self._texts: list[tuple[str, str, str]] = []
        """Table, column and text."""
        keys: list[str] = []
        try:
            with closing(sqlite3.connect(database_uri(database), uri=True)) as connection:
                connection.text_factory = lambda text: text.decode("utf-8", "ignore")
                for table, column in _columns(connection):
                    self._first[table.lower(), column.lower()] = _first(connection, table, column)
                    if table == "sqlite_sequence":  # shown where a schema lists it, not searched
                        continue
                    for number, text in enumerate(_texts(connection, table, column)):
                        if 0 < len(text) <= _LONGEST_TEXT:
                            self._texts.append((table, column, text))
                            keys.append(f"{table}-**-{column}-**-{number}")
        except sqlite3.Error as error:
            raise DataError(f"cannot read the database {database}: {error}") from error
        self._index = BM25([text for _, _, text in self._texts], keys)

    def of(self, question: str) -> Examples:
        """Example values by table and column, those that ``question`` names first."""
        hits = dict.fromkeys(
            document
            for query in queries(question)
            for document in self._index.search(query, limit=_HITS_PER_QUERY)
        )
        ranked = []
        for place, document in enumerate(hits):
            _, _, text = self._texts[document]
            overlap = overlap_share(text, question)
            if overlap > _LEAST_OVERLAP:
                ranked.append((overlap, len(text), place, document))
        ranked.sort(reverse=True)
        found: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        for *_, document in ranked[:_HITS_SHOWN]:
            table, column, text = self._texts[document]
            found[table.lower(), column.lower()].append(text)
        for key, values in self._first.items():
            found[key] += values
        return found


def overlap_share(text: str, question: str) -> float:
    """The longest part of ``text`` that stands in ``question``, as a share of ``text``.

    Upper and lower case are the same.

    >>> overlap_share("Dogs", "How many dog owners?")
    0.75
    """
    text, question = text.lower(), question.lower()
    longest = 0
    for start in range(len(text)):
        while start + longest < len(text) and text[start : start + longest + 1] in question:
            longest += 1
    return longest / len(text)


def _columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [
        (table, column)
        for (table,) in rows
        for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    ]


def _first(connection: sqlite3.Connection, table: str, column: str) -> list[Any]:
    """The first distinct values; which come first is for SQLite to say (an index changes it)."""
    name = _quote(column)
    rows = connection.execute(
        f"SELECT {name} FROM (SELECT DISTINCT {name} FROM {_quote(table)} "
        f"WHERE {name} IS NOT NULL AND {name} != '') LIMIT {_FIRST_VALUES}"
    )
    return [value[:_LONGEST_TEXT] if isinstance(value, str) else value for (value,) in rows]


def _texts(connection: sqlite3.Connection, table: str, column: str) -> list[str]:
    name = _quote(column)
    rows = connection.execute(
        f"SELECT DISTINCT {name} FROM {_quote(table)} WHERE {name} IS NOT NULL "
        f"LIMIT {VALUES_PER_COLUMN}"
    )
    return [value for (value,) in rows if isinstance(value, str) and not _is_number(value)]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_DATABASES_HELD = 4

_PROMPT = """\
Task Overview:
You are a data science expert. Below, you are provided with a database schema and a natural \
language question. Your task is to understand the schema and generate a valid SQL query to answer \
the question.

Database Engine:
SQLite

Database Schema:
{schema}
This schema describes the database's structure, including tables, columns, primary keys, foreign \
keys, and any relevant relationships or constraints.

Question:
{question}

Instructions:
- Make sure you only output the information that is asked in the question. If the question asks \
for a specific column, make sure to only include that column in the SELECT clause, nothing more.
- The generated query should return all of the information asked in the question without any \
missing or extra information.
- Before generating the final SQL query, please think through the steps of how to write the query.

Output Format:
In your answer, please enclose the generated SQL query in a code block:
```sql
-- Your SQL query
```

Take a deep breath and think step by step to find the correct SQL query.
"""


class SQLPrompts:
    """Writes prompts for questions on the databases of one directory, ``<db_id>/<db_id>.sqlite``.

    Without databases, prompts show the example values that the schemas bring along. A database
    that is not among ``schemas``, from a tables.json, is described by what its file declares.
    """

    def __init__(self, *, databases: Path | None, schemas: Mapping[str, Schema]) -> None:
        self._databases = databases
        self._schemas = schemas
        # Questions come database by database, more or less; a large index is dropped in time.
        self._values = lru_cache(maxsize=_DATABASES_HELD)(ExampleValues)

    def prompt(self, db_id: str, question: str, evidence: str = "") -> str:
        """The prompt of a question; the evidence stands on the line before it."""
        asked = f"{evidence}\n{question}" if evidence.strip() else question
        if self._databases is None:
            if db_id not in self._schemas:
                raise DataError(f"found neither a database nor a schema of {db_id!r}")
            return sql_prompt(schema_text(self._schemas[db_id], {}), asked)
        file = self._databases / database_file(db_id)
        schema = self._schemas.get(db_id) or read_schema(file)
        return sql_prompt(schema_text(schema, self._values(file).of(asked)), asked)


def sql_prompt(schema: str, question: str) -> str:
    # Not str.format: braces in either have to stay.
    before, between, after = _PROMPT.replace("{question}", "{schema}").split("{schema}")
    return f"{before}{schema}{between}{question}{after}"


def database_file(db_id: str) -> str:
    """Path of a database in the directory of databases.

    >>> database_file("pets_1")
    'pets_1/pets_1.sqlite'
    """
    return f"{db_id}/{db_id}.sqlite"


# Texts are searched by English word stems, so that "singers" finds "singer".
#
# **Source**: Porter (1980), An algorithm for suffix stripping, Program 14(3), with the two later
# changes by its author that search engines use (bli -> ble for abli -> able, and logi -> log).


def _endings(pairs: str) -> dict[str, str]:
    """Endings and what takes their place, each pair by a colon; the longest ending first."""
    found = [pair.split(":") for pair in pairs.split()]
    return dict(sorted(found, key=lambda pair: -len(pair[0])))


_STEP_2 = _endings(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e "
    "ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous "
    "aliti:al iviti:ive biliti:ble logi:log"
)
_STEP_3 = _endings("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two letters are their own.

    >>> [stem(w) for w in ("singers", "happiness", "relational", "hopping", "is")]
    ['singer', 'happi', 'relat', 'hop', 'is']
    """
    if len(word) <= 2:
        return word
    for suffix, replacement in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix):
            word = word.removesuffix(suffix) + replacement
            break
    word = _past_and_ing(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _strip(_replace(_replace(word, _STEP_2), _STEP_3))
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often a vowel is followed by a consonant."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y: the ending of "hop"."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _past_and_ing(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    found = re.fullmatch("(.*)(?:ed|ing)", word)
    if found is None or "v" not in _shape(found[1]):
        return word
    rest: str = found[1]
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if re.search(r"([^aeiou])\1$", rest) and _shape(rest).endswith("c"):
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replace(word: str, endings: Mapping[str, str]) -> str:
    """Replace the longest ending that fits, if enough of the word is left."""
    for suffix, replacement in endings.items():
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            return rest + replacement if _measure(rest) > 0 else word
    return word


def _strip(word: str) -> str:
    for suffix in sorted(_STEP_4, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            allowed = suffix != "ion" or rest.endswith(("s", "t"))
            return rest if allowed and _measure(rest) > 1 else word
    return word


LONGEST_QUERY = 8
"""Words of the longest n-gram; the whole question is searched for as well."""

# Lucene's list for English.
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into"),
        *("is", "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then"),
        *("there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
# Letters and digits, held together by an apostrophe or a point between letters, by a point or a
# comma between digits, and by underscores (word breaks of Unicode, UAX 29).
_TERM = re.compile(
    r"[^\W_]+(?:['\u2019][^\W_]+|(?<=\d)[.,](?=\d)\d+|(?<=[A-Za-z])\.(?=[A-Za-z])[^\W_]+)*"
    r"(?:_+\w+)*|_+\w+"
)
_POSSESSIVE = re.compile(r"['\u2019][sS]$")

# What the Penn Treebank's tokenizer sets apart; the order matters.
_APART = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"([,:])(\D)", r" \1 \2"),
        (r"([,:])$", r" \1 "),
        (r"\.\.\.", " ... "),
        (r"[;@#$%&?!\[\](){}<>]", r" \g<0> "),
        (r"([^.])(\.)([\])}>\"'\u00bb\u201d\u2019 ]*)\s*$", r"\1 \2 \3 "),
        (r"--", " -- "),
        (r'"', ' " '),
        (r"([^' ])('[sS]|'[mM]|'[dD]|')(?= |$)", r"\1 \2"),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?= |$)", r"\1 \2"),
    )
)


def terms(text: str) -> list[str]:
    """Terms of a text for a search engine: words in lower case, stemmed, without stop words.

    >>> terms("What are the singers' names?")
    ['what', 'singer', 'name']
    """
    words = (_POSSESSIVE.sub("", found).lower() for found in _TERM.findall(text))
    return [stem(word) for word in words if word not in _STOP_WORDS]


def queries(question: str) -> list[str]:
    """Every run of one to eight words of a question, then the question, each once.

    >>> queries("Who sings?")
    ['Who', 'sings', '?', 'Who sings', 'sings ?', 'Who sings ?', 'Who sings?']
    """
    text = question
    for pattern, replacement in _APART:
        text = pattern.sub(replacement, text)
    words = text.split()
    grams = [
        " ".join(words[start : start + size])
        for size in range(1, LONGEST_QUERY + 1)
        for start in range(len(words) - size + 1)
    ]
    return list(dict.fromkeys([*grams, question]))


_K1, _B = 0.9, 0.4
_DIGITS = 5
"""Scores that agree to this many decimals are equal: Lucene computes them in single precision."""


class BM25:
    """An index of ``texts``; ``keys`` decide between equal scores, in the order of their bytes.

    **Equation**: sum over the query's terms t of
    log(1 + (N - n_t + 1/2) / (n_t + 1/2)) f / (f + k1 (1 - b + b L / mean L)), k1 = 0.9, b = 0.4
    (Robertson et al. 1995, in the form and with the constants of Lucene as Anserini sets it).
    """

    def __init__(self, texts: Sequence[str], keys: Sequence[str]) -> None:
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for document, text in enumerate(texts):
            words = terms(text)
            lengths.append(len(words))
            for word, count in Counter(words).items():
                self._postings[word].append((document, count))
        self._filled = sum(map(bool, lengths))
        mean = sum(lengths) / self._filled if self._filled else 1.0
        self._norms = [_K1 * (1 - _B + _B * length / mean) for length in lengths]
        self._keys = [key.encode("utf-8", "surrogateescape") for key in keys]

    def search(self, query: str, *, limit: int) -> list[int]:
        """The documents that share a term with the query, best first, at most ``limit``."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word, wanted in Counter(terms(query)).items():
            postings = self._postings.get(word, ())
            weight = log(1 + (self._filled - len(postings) + 0.5) / (len(postings) + 0.5))
            for document, count in postings:
                scores[document] += wanted * weight * count / (count + self._norms[document])
        return nsmallest(limit, scores, key=lambda d: (-round(scores[d], _DIGITS), self._keys[d]))

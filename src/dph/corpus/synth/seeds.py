"""What a model is shown: a document, a function of a module with its doc string, a database.

A seed says what to write about. Its id and the run's seed decide what is drawn, so that more seeds
or samples leave the rows of the others as they are.
"""

import importlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.corpus.documents import Document
from dph.corpus.shards import Corpus, digest
from dph.corpus.synth.purity import PURE_MODULES
from dph.errors import DataError, SettingsError
from dph.tasks.sql.example_values import ExampleValues
from dph.tasks.sql.prompt import database_file
from dph.tasks.sql.schema import read_schema
from dph.tasks.sql.schema_text import schema_text

_LONGEST = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """What a prompt is made of.

    Args:
        id: names it.
        text: what the model is shown.
        uses: a function that an answer has to call; '' for any.
        database: the file that an answer is about, in the directory of databases; '' for none.
    """

    id: str
    text: str
    uses: str = ""
    database: str = ""


def document_seeds(corpus: Corpus, *, most: int | None = None) -> list[Seed]:
    """The first ``most`` documents of a corpus, by their heads: a uniform sample of it."""
    seeds: list[Seed] = []
    for document in corpus.documents():
        if most is not None and len(seeds) >= most:
            break
        seeds.append(_document_seed(document))
    return seeds


def _document_seed(document: Document) -> Seed:
    return Seed(id=document.id, text=document.text[:_LONGEST].strip())


def signature_seeds(modules: Sequence[str]) -> list[Seed]:
    """The public functions of ``modules`` with their signatures and doc strings.

    Raises:
        SettingsError: a module is none that programs may import.
    """
    if strange := [name for name in modules if name not in PURE_MODULES]:
        raise SettingsError(
            f"{strange[0]!r} is not among the modules that kept programs may import: "
            f"{', '.join(sorted(PURE_MODULES))}"
        )
    return [seed for name in dict.fromkeys(modules) for seed in _functions(name)]


def _functions(name: str) -> Iterator[Seed]:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    for public in sorted(names):
        found = getattr(module, public, None)
        doc = inspect.getdoc(found)
        if not inspect.isroutine(found) or not doc:
            continue
        try:
            signature = str(inspect.signature(found))
        except ValueError:  # some functions written in C have none
            signature = "(...)"
        text = f"{name}.{public}{signature}\n\n{doc[:_LONGEST]}"
        yield Seed(id=f"{name}.{public}", text=text, uses=f"{name}.{public}")


def database_seeds(databases: Path) -> list[Seed]:
    """The SQLite databases ``<name>/<name>.sqlite`` of a directory, by schemas with example values.

    Raises:
        DataError: there is none, or one cannot be read.
    """
    if not databases.is_dir():
        raise DataError(f"there is no directory of databases {databases}")
    names = sorted(path.name for path in databases.iterdir() if path.is_dir())
    files = {name: databases / database_file(name) for name in names}
    seeds = [
        Seed(
            id=name,
            text=schema_text(read_schema(file), ExampleValues(file).of("")),
            database=database_file(name),
        )
        for name, file in files.items()
        if file.is_file()
    ]
    if not seeds:
        raise DataError(f"{databases} holds no database <name>/<name>.sqlite")
    return seeds


def seeds_digest(seeds: Sequence[Seed]) -> str:
    """A digest of all that seeds say."""
    return digest([[seed.id, seed.text, seed.uses, seed.database] for seed in seeds])

"""Seeds for a model: a document, a function of a module with its doc string, a database.

A seed says what to write about. Its id and the run's seed decide what is drawn, so that more seeds
or samples leave the rows of the others as they are.
"""

import ast
import importlib
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dph.errors import DataError, SettingsError
from dph.tasks.sql.prompt import ExampleValues, database_file
from dph.tasks.sql.schema import read_schema, schema_text
from dph_corpus.packaged import packaged
from dph_corpus.settings import DOCUMENTATION, SynthSettings
from dph_corpus.shards import Corpus, digest

# Whether a program is self-contained: nothing but functions, classes and constants.
#
# A kept row has to give the same result whenever and wherever it is run, so what reaches outside
# of a program (files, processes, clocks, chance) or around Python (``eval``, names with two
# underscores) is refused before anything is run. The sandbox holds what gets past this.

_PURE = """
    __future__ abc array base64 binascii bisect cmath collections colorsys copy dataclasses datetime
    decimal difflib enum fnmatch fractions functools hashlib heapq html itertools json keyword math
    numbers operator re statistics string struct textwrap types typing unicodedata zlib
"""
PURE_MODULES = frozenset(_PURE.split())
"""Modules of the standard library that reach nothing outside of the program."""

_REFUSED = """
    eval exec compile open input breakpoint globals locals vars getattr setattr delattr memoryview
    __import__ __builtins__ __loader__ __file__ id hash exit quit help print
"""
_REFUSED_NAMES = frozenset(_REFUSED.split())
_REFUSED_ATTRIBUTES = frozenset({"now", "today", "utcnow", "fromtimestamp"})
_STATEMENTS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


def impurity(tree: ast.Module, *, modules: Collection[str] = PURE_MODULES) -> str:
    """The first thing that keeps a program from being self-contained; '' if nothing does.

    >>> impurity(ast.parse("import os"))
    'imports os'
    """
    return next(_impurities(tree, modules), "")


def _impurities(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    for place, statement in enumerate(tree.body):
        doc_string = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, _STATEMENTS) and not (doc_string and place == 0):
            yield f"runs code when it is loaded: {type(statement).__name__}"
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (
                    f"imports {name.name}"
                    for name in names
                    if name.name.partition(".")[0] not in modules
                )
            case ast.ImportFrom(module=module, level=level):
                if level or (module or "").partition(".")[0] not in modules:
                    yield f"imports {'.' * level}{module or ''}"
            case ast.Name(id=name) if name in _REFUSED_NAMES:
                yield f"uses {name}"
            case ast.Attribute(attr=name) if name in _REFUSED_ATTRIBUTES or _is_hidden(node):
                yield f"uses .{name}"
            case ast.Global() | ast.Nonlocal() | ast.Await() | ast.AsyncFunctionDef():
                yield f"has {type(node).__name__}"


def _is_hidden(node: ast.Attribute) -> bool:
    """Whether an attribute is private to something else than the object whose method this is."""
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "other")
    return node.attr.startswith("__" if own else "_")


_LONGEST = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """Origin of a prompt.

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


def seeds_of(settings: SynthSettings, open_documents: Callable[[Path], Corpus]) -> list[Seed]:
    """Subjects of rows, at most ``settings.most``."""
    if settings.kind == DOCUMENTATION:
        names = [name.strip() for name in settings.modules.split(",") if name.strip()]
        return signature_seeds(names)[: settings.most]
    if settings.databases is not None:
        return database_seeds(settings.databases)[: settings.most]
    assert settings.input is not None
    return document_seeds(open_documents(settings.input), most=settings.most)


def document_seeds(corpus: Corpus, *, most: int | None = None) -> list[Seed]:
    """The first ``most`` documents of a corpus, by their heads: a uniform sample of it."""
    return [
        Seed(id=document.id, text=document.text[:_LONGEST].strip())
        for document in islice(corpus.documents(), most)
    ]


def signature_seeds(modules: Sequence[str]) -> list[Seed]:
    """The public functions of ``modules`` with their signatures and doc strings."""
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
    """The databases ``<name>/<name>.sqlite`` of a directory, by schemas with example values."""
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
        raise DataError(f"{databases} has no database <name>/<name>.sqlite")
    return seeds


def seeds_digest(seeds: Sequence[Seed]) -> str:
    """A digest of all that seeds say."""
    return digest([[seed.id, seed.text, seed.uses, seed.database] for seed in seeds])


PROMPTS = packaged("synth/prompts.toml", dict[str, str])
"""Questions to a model by kind of row (``dph_corpus.settings.KINDS``)."""
VERSION = 1
"""Counts up when a prompt changes."""


def prompt_of(kind: str, seed: Seed) -> str:
    """The prompt of a kind of row about a seed."""
    return PROMPTS[kind].format(text=seed.text, uses=seed.uses, form=PROMPTS["form"])

import ast
import importlib
from pathlib import Path

import pytest

import dph

ROOT = Path(dph.__file__).parents[2]
FILES = [
    p
    for top in ("lab/benchmarks", "examples", "website")
    for p in sorted((ROOT / top).rglob("*.py"))
]
ROOTS = ("dph", "lab")
PEERS = ("dph.engines.trl", "dph.engines.verl")
"""What needs a peer that is installed in an environment of its own."""


def names_of(tree):
    """(module, name) of everything a file imports from the package, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ROOTS:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            yield from ((name, None) for name in names if name.split(".")[0] in ROOTS)


def missing(tree):
    """Those that the package lacks."""
    for module, name in names_of(tree):
        if module.startswith(PEERS):
            continue
        found = importlib.import_module(module)
        if name is None or hasattr(found, name):
            continue
        try:
            importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError:
            yield f"{module}.{name}"


@pytest.mark.skipif(not FILES, reason="a wheel has no benchmarks")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_file_beside_the_package_imports_from_it_is_there(path):
    assert list(missing(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_a_name_that_is_gone_is_found():
    source = "from lab.study.costs import StageClock, no_such_name\nfrom dph import cli\n"
    assert list(missing(ast.parse(source))) == ["lab.study.costs.no_such_name"]

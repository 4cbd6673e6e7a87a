"""What holds for every file of the packages: no cycle of imports, nothing longer than a screen."""

import ast
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dph
from dph.recipe import Recipe

ROOT = Path(__file__).parents[1]
PACKAGE = Path(dph.__file__).parent
PACKAGES = {place.name: place for place in (PACKAGE, ROOT / "corpus/src/dph_corpus", ROOT / "lab")}
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
of_every_package = pytest.mark.parametrize("package", PACKAGES.values(), ids=PACKAGES)
LONGEST_FUNCTION = 60
LONGEST_FILE = 500


def files_of(package):
    """The files of a package but its tests."""
    return sorted(path for path in package.rglob("*.py") if package / "tests" not in path.parents)


def module_of(path, package):
    """The dotted name of a file; a package's is that of its ``__init__``."""
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree, package_of_file, paths):
    """The files that a file imports: at its top, in functions and for type checkers alike.

    ``from a import b`` is the file a/b.py where there is one, and that of a where there is none.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package_of_file[: len(package_of_file) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in paths else base


def import_graph(package):
    """The files that each file imports, by their dotted names."""
    paths = {module_of(path, package): path for path in files_of(package)}
    graph = {}
    for module, path in paths.items():
        parts = module.split(".")
        package_of_file = parts if path.stem == "__init__" else parts[:-1]
        found = imported(ast.parse(path.read_text()), package_of_file, paths)
        graph[module] = {name for name in found if name in paths} - {module}
    return graph


def cycle_of(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@of_every_package
def test_no_file_imports_itself_through_others(package):
    assert cycle_of(import_graph(package)) == []


def test_a_cycle_is_found_whatever_kind_of_import_closes_it(tmp_path):
    closing = {
        "a package": "from app.two import g",
        "a module": "from app import two",
        "by its name": "import app.two",
        "a relative one": "from .two import g",
        "in a function": "def f():\n    from app.two import g\n    return g",
        "for type checkers": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.two import g"
        ),
    }
    for number, (kind, text) in enumerate(closing.items()):
        package = tmp_path / str(number) / "app"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "two.py").write_text("from app.one import f\n")
        (package / "one.py").write_text("import os\n")
        assert cycle_of(import_graph(package)) == [], kind
        (package / "one.py").write_text(f"{text}\n")
        assert {"app.one", "app.two"} == set(cycle_of(import_graph(package))), kind


def test_a_package_that_gives_names_of_its_modules_closes_no_cycle_by_itself(tmp_path):
    package = tmp_path / "app"
    package.mkdir()
    (package / "__init__.py").write_text("from app.one import f\n")
    (package / "one.py").write_text("from app.two import g\n")
    (package / "two.py").write_text("")
    assert cycle_of(import_graph(package)) == []
    (package / "two.py").write_text("from app import f\n")
    assert set(cycle_of(import_graph(package))) == {"app", "app.one", "app.two"}


def arrows_by_strings(package):
    """Every ``"dph.module:name"`` in a file of the package, with the file's dotted name."""
    path = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+:\w+")
    for file in files_of(package):
        for node in ast.walk(ast.parse(file.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and path.fullmatch(text):
                yield module_of(file, package), text


def floor_of(module):
    """How high a module's wing stands; wings of one floor do not import each other."""
    layers = SETTINGS["importlinter"]["contracts"][0]["layers"]
    wing = ".".join(module.split(".")[:2])
    (floor,) = [n for n, layer in enumerate(reversed(layers)) if wing in layer.split(" | ")]
    return floor


def test_arrows_against_the_order_of_the_wings_are_declared_where_the_linter_reads_them():
    found = {}
    for module, path in arrows_by_strings(PACKAGE):
        target = path.partition(":")[0]
        if floor_of(target) > floor_of(module):
            found.setdefault(module, set()).add(".".join(target.split(".")[:2]))
    declared = {module: set(wings) for module, wings in SETTINGS["dph"]["arrows"].items()}
    assert found == declared


def names_at_the_top(module):
    """What a file defines or imports at its top level."""
    top, *rest = module.split(".")
    file = PACKAGES[top].joinpath(*rest)
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@of_every_package
def test_an_arrow_by_string_leads_to_something(package):
    for module, path in arrows_by_strings(package):
        target, _, name = path.partition(":")
        assert name in set(names_at_the_top(target)), f"{module} names {path}"


@of_every_package
def test_no_file_is_longer_than_five_hundred_lines(package):
    lengths = {path: len(path.read_text().splitlines()) for path in files_of(package)}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


@of_every_package
def test_no_function_is_longer_than_sixty_lines(package):
    lengths = {
        f"{module_of(path, package)}.{node.name}": node.end_lineno - node.lineno + 1
        for path in files_of(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("package", [PACKAGES["dph"], PACKAGES["dph_corpus"]], ids=str)
def test_public_names_of_classes_are_unique(package):
    places = {}
    for path in files_of(package):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module_of(path, package))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def lines_below(place):
    """Lines of Python below a folder, without a package's own tests."""
    files = (
        path for path in (ROOT / place).rglob("*.py") if ROOT / place / "tests" not in path.parents
    )
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def wings():
    return {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}


def test_no_part_of_the_repository_is_longer_than_its_ceiling():
    """``[tool.dph.lines]``: a ceiling is only ever lowered."""
    ceilings = SETTINGS["dph"]["lines"]
    found = {place: sum(map(lines_below, place.split())) for place in ceilings}
    over = {place: n - ceilings[place] for place, n in found.items() if n > ceilings[place]}
    assert over == {}, "lines above [tool.dph.lines] of pyproject.toml: delete as many elsewhere"
    assert {f"src/dph/{wing}" for wing in wings()} <= set(ceilings)


def test_the_pages_that_users_read_are_no_longer_than_their_ceiling():
    words = sum(len(path.read_text("utf-8").split()) for path in (ROOT / "docs").rglob("*.md"))
    assert words <= SETTINGS["dph"]["words"]["docs"]


def test_the_package_has_its_wings():
    known = "_base _processes cli engines loss model quickstart recipe results runs tasks"
    assert sorted(wings()) == known.split()
    files = {path.name for path in PACKAGE.glob("*.py")}
    assert files == {"__init__.py", "__main__.py", "corpus.py", "errors.py", "records.py"}


def _dotted_names(text):
    names = rf"(?<![\w/.])((?:{'|'.join(PACKAGES)})(?:\.[a-z_]\w*){{2,}})"
    return {found[1] for found in re.finditer(names, text)}


def _leads_to_a_module(package, name):
    place = PACKAGES[package] / name
    return place.is_dir() or place.with_suffix(".py").is_file()


def test_a_dotted_name_in_any_text_begins_with_a_module_that_exists():
    """Strings, comments, pages and settings that name a module follow it when it moves."""
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".j2", ".html"}
    folders = ("src", "docs", "recipes", "website", "examples", "corpus")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    wrong = {
        (str(path.relative_to(ROOT)), name)
        for path in files
        if path.suffix in suffixes
        for name in _dotted_names(path.read_text("utf-8"))
        if name.split(".")[1] not in {*Recipe.model_fields, *dir(dph)}  # settings of verl's
        and not _leads_to_a_module(*name.split(".")[:2])
    }
    assert not wrong

"""What the site's strict build asks, as far as it can be asked without MkDocs."""

import ast
import csv
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dph.recipe.methods import METHOD_ROWS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
REFERENCE = ("recipe", "commands", "python")
NOTEBOOKS = {f"notebooks/{path.stem}.md" for path in (ROOT / "examples/notebooks").glob("*.ipynb")}
GENERATED = {"example.md", *(f"reference/{name}.md" for name in REFERENCE), *NOTEBOOKS}
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)[^`].*?\1")


def packages():
    """``PACKAGES`` of the hook, read without importing it: it needs MkDocs."""
    tree = ast.parse((ROOT / "website/generated_pages.py").read_text(encoding="utf-8"))
    return next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "PACKAGES"
    )


def public_names(package):
    module = importlib.import_module(package)
    own = [
        name
        for name, found in vars(module).items()
        if not name.startswith("_") and getattr(found, "__module__", None) == package
    ]
    return getattr(module, "__all__", own)


def anchors(page):
    """The anchors of headings, as GitHub and MkDocs make them for plain titles."""
    titles = re.findall(r"^#+ +(.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower() for title in titles]
    return {re.sub(r"[-\s]+", "-", title) for title in plain} | {
        re.sub(r"\s", "-", title) for title in plain
    }


def links(page):
    text = CODE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))
    return [link for link in LINK.findall(text) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_of_a_page_leads_somewhere(page):
    generated = GENERATED | {f"reference/{package}.md" for package in packages()}
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(DOCS), f"{link} leaves docs/, which is all that the site has"
        if str(target.relative_to(DOCS)) in generated:
            continue
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_every_link_of_the_readme_leads_somewhere_and_pages_for_contributors_are_short():
    for link in links(ROOT / "README.md"):
        assert (ROOT / link.partition("#")[0]).exists(), link
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split()) <= 1800
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_name_that_a_page_imports_of_the_package_exists(page):
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"from (dph(?!\.engines)[\w.]*) import (\([^)]*\)|[\w, ]+)", text)
    for module, names in found:
        missing = set(re.findall(r"\w+", names)) - set(dir(importlib.import_module(module)))
        assert not missing, f"{module} has no {missing}"


def test_the_walks_of_contributing_pass_functions_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    stays = re.findall(r"`(\S+\.py):(\w+)`", text)
    assert len(stays) > 10
    for file, name in stays:
        assert re.search(rf"^(?:def|class) {name}\b", (ROOT / "src/dph" / file).read_text(), re.M)


def test_the_navigation_has_every_page_once():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"(?:: |- )(\S+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)
    assert len(named) == len(set(named))
    assert set(named) == {str(page.relative_to(DOCS)) for page in PAGES} | GENERATED


@pytest.mark.parametrize("package", packages())
def test_every_public_name_says_what_it_is(package):
    module = importlib.import_module(package)
    assert inspect.getdoc(module)
    for name in public_names(package):
        found = getattr(module, name)
        if inspect.isclass(found) or inspect.isroutine(found):
            assert inspect.getdoc(found), f"{package}.{name}"


def test_every_package_that_tells_its_names_has_a_page():
    told = {
        ".".join(path.relative_to(ROOT / "src").parts[:-1])
        for path in (ROOT / "src/dph").glob("*/__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    }
    # What other packages alone need: nobody imports them from outside.
    inner = {
        *("agreement", "attention", "cli", "files", "forward", "hub", "jobs", "sandbox", "workers")
    }
    assert told - {f"dph.{name}" for name in inner} <= set(packages())


def test_no_backslash_is_shown_in_the_code_of_a_table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "website")  # as MkDocs does for its hooks
    without_backslashes = importlib.import_module("table_bars").without_backslashes
    row = r"| `own\|trl` | KL(pi \|\| ref) | ``a\|b`` |"
    assert without_backslashes(row) == r"| `own|trl` | KL(pi \|\| ref) | ``a|b`` |"
    assert without_backslashes("text `a\\|b`") == "text `a\\|b`"
    for page in PAGES:
        for line in without_backslashes(page.read_text(encoding="utf-8")).splitlines():
            assert not line.startswith("|") or not re.search(r"`[^`]*\\\|[^`]*`(?= \|)", line), line


def test_the_text_for_language_models_has_a_sentence_of_every_page(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "website")
    hook = importlib.import_module("llms_text")
    pages = [
        SimpleNamespace(title=page.stem, url=f"{page.stem}.html", markdown=page.read_text("utf-8"))
        for page in PAGES
    ]
    hook.on_nav(SimpleNamespace(pages=pages))
    site = {"site_name": "dph", "site_description": "It is.", "site_dir": tmp_path}
    hook.on_post_build(SimpleNamespace(**site))
    head, *lines = (tmp_path / "llms.txt").read_text("utf-8").split("\n- ")
    assert head.startswith("# dph\n\n> It is.\n")
    assert len(lines) == len(pages)
    for line in lines:
        assert re.fullmatch(r"\[[\w-]+\]\([\w-]+\.html\): [\w`\"(].*[.:?!]\"?\n?", line), line
        assert len(line) <= 400, line


INTERVAL = re.compile(r"[+-]?\d+\.\d ± \d+\.\d")
STUDIES = ROOT / "lab" / "studies"


def intervals(*paths):
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return {found for text in texts for found in INTERVAL.findall(text)}


@pytest.mark.skipif(not STUDIES.is_dir(), reason="a wheel has no studies")
@pytest.mark.parametrize("page", ["docs/results.md", "README.md"])
def test_every_interval_of_a_page_is_one_of_a_study(page):
    named = intervals(ROOT / page)
    assert len(named) >= 2
    assert named <= intervals(*STUDIES.rglob("*.md"))


WRITTEN = ("methods.md", "guides/grading.md")


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "lab" / "benchmarks")
    return importlib.import_module("written_tables")


def test_the_pages_are_what_make_tables_writes(tables, tmp_path, monkeypatch):
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    for page in WRITTEN:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs" / page)
    monkeypatch.setattr(sys, "argv", ["written_tables.py", "--root", str(tmp_path)])
    tables.main()
    for page in WRITTEN:
        written, there = (root / "docs" / page for root in (tmp_path, ROOT))
        assert written.read_text(encoding="utf-8") == there.read_text(encoding="utf-8"), page


def test_every_method_has_a_line_and_what_was_measured_stays(tables):
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    lines = list(tables.method_lines(page))
    assert [line[0].strip("`") for line in lines] == [*METHOD_ROWS, "dph interpolate"]
    assert all(len(line) == len(tables.COLUMNS["methods"]) and all(line) for line in lines)
    (line,) = [line for line in tables.method_lines(page) if line[0] == "`grpo`"]
    changed = page.replace(line[-1], "sql-2: 1.0 / 2.0")
    (line,) = [line for line in tables.method_lines(changed) if line[0] == "`grpo`"]
    assert line[-1] == "sql-2: 1.0 / 2.0"


DOCUMENT = DOCS / "guides" / "grading.md"


def example(name):
    found = re.search(
        rf"<!-- example: {name} -->\n```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    return found[1]


@pytest.fixture
def shell(tmp_path):
    """Run a script where ``dph`` is this package's."""
    command = tmp_path / "bin" / "dph"
    command.parent.mkdir()
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c "
        "'import sys; from dph.cli import main; sys.exit(main())' \"$@\"\n"
    )
    command.chmod(0o755)
    path = {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}

    def run(script):
        words, env = ["bash", "-ec", script], os.environ | path
        return subprocess.check_output(words, cwd=tmp_path, env=env, text=True)

    return run


def table_after(mark):
    text = DOCUMENT.read_text().partition(mark)[2].lstrip("\n")
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[float(cell) for cell in line.strip("|").split("|")[1:]] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "option", "shown", "choices"),
    [
        ("sql", "--rule", "strict", ("spider", "bird", "strict", "bird_soft_f1", "cartesian")),
        ("math", "--verifier", "math", ("math", "math_qwen")),
    ],
)
def test_the_rewards_of_an_example(shell, tmp_path, name, option, shown, choices):
    pytest.importorskip("math_verify")
    rewards = []
    for choice in choices:
        shell(example(name).replace(f"{option} {shown} ", f"{option} {choice} "))
        rows = (tmp_path / "graded.jsonl").read_text().splitlines()
        rewards.append([round(json.loads(row)["reward"], 2) for row in rows])
        for path in (tmp_path / "graded.jsonl", tmp_path / "databases" / "pets" / "pets.sqlite"):
            path.unlink(missing_ok=True)
    expected = [list(row) for row in zip(*rewards, strict=True)]
    assert table_after(f"<!-- rewards: {name} -->") == expected


def test_the_outcomes_of_the_code_example_and_of_a_verifier_of_ones_own(shell, tmp_path):
    shell(example("code"))
    rows = (tmp_path / "graded-code.jsonl").read_text().splitlines()
    outcomes = [json.loads(row)["outcome"] for row in rows]
    said = re.search(r"The outcomes are (.*)\.\n", DOCUMENT.read_text())[1]
    assert outcomes == re.split(r", | and ", said)
    assert "mean reward 0.5000" in shell(example("own"))
    with (tmp_path / "graded-own.csv").open(newline="") as file:
        assert [row["outcome"] for row in csv.DictReader(file)] == ["CORRECT", "WRONG"]


def test_the_passk_example(shell):
    out = shell(example("passk"))
    # a: 2 of 2, b: 1 of 2; against 1 of 2 and 0 of 2.
    assert "75.0 [50.0, 100.0]" in out
    assert "+50.0 [-76.3, +92.1]" in out  # both gain a half: the exact interval of two problems
    # Only a is solved by the first sample of the base; its later one is wrong.
    assert re.search(r"keep +100\.0 +0\.0", out)
    assert re.search(r"explore +0\.0 +0\.0", out)

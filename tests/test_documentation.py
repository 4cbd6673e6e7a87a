"""What the site's strict build asks (make docs), as far as it can be asked without MkDocs."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from browser import needs_browser, open_browser, wait_until

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


def test_every_link_of_the_readme_leads_somewhere():
    for link in links(ROOT / "README.md"):
        assert (ROOT / link.partition("#")[0]).exists(), link


def test_pages_for_contributors_are_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split()) <= 1800
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 80


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
        "agreement",
        "attention",
        "cli",
        "files",
        "forward",
        "hub",
        "jobs",
        "sandbox",
        "workers",
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


@needs_browser
@pytest.mark.slow
def test_a_search_works_in_pages_that_were_opened_from_disk(tmp_path):
    """Browsers allow no worker there; the site brings a stand-in, which the theme looks for."""
    worker = (ROOT / "website/iframe-worker.js").read_text(encoding="utf-8")
    asks = """const worker = new Worker(new URL("worker.js", location));
        worker.addEventListener("message", (event) => { document.title = event.data.found; });
        worker.postMessage({ sought: "zebra" });"""
    (tmp_path / "worker.js").write_text(
        "addEventListener('message', ({ data }) => postMessage({ found: `${data.sought} found` }))"
    )
    (tmp_path / "page.html").write_text(
        f"<body><script>{worker}</script><script>{asks}</script></body>"
    )
    with open_browser() as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        wait_until(page, "document.title === 'zebra found'")
        assert page.evaluate("'IFrameWorker' in window")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.search(r"^  - offline\b", settings, re.MULTILINE)
    assert "polyfills: [assets/iframe-worker.js]" in settings

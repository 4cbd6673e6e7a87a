"""A hook of MkDocs: pages that are made from the package itself, so that they cannot be behind it.

``reference/recipe.md`` from the recipe's schema, ``reference/commands.md`` from the verbs,
``notebooks/*.md`` from those of examples/, ``reference/python.md`` and a page for each public
package from docstrings, ``example.md`` and the report that it shows.
"""

import html
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from table_bars import without_backslashes
from typer.main import get_command

from dph.cli.app import app
from dph.recipe.keys import Key, keys_of

PACKAGES = (
    "dph",
    "dph.records",
    "dph.errors",
    "dph.recipe",
    "dph.loss.divergences",
    "dph.loss.objectives",
    "dph.tasks.problems",
    "dph.tasks.math",
    "dph.tasks.sql.data_sets",
    "dph.tasks.styles",
    "dph.tasks.verifiers",
    "dph.tasks.verifiers.sql.verifier",
    "dph.tasks.verifiers.math.verifier",
    "dph.tasks.verifiers.qwen.verifier",
    "dph.tasks.verifiers.code.verifier",
    "dph.tasks.verifiers.gym.verifier",
    "dph.tasks.verifiers.exact",
    "dph.tasks.environments",
    "dph.tasks.grading",
    "dph.model.loading",
    "dph.model.policies",
    "dph.model.prompts",
    "dph.model.sampler.base",
    "dph.model.sampler.graded",
    "dph.model.sampler.episodes",
    "dph.model.sampler.torch.sampler",
    "dph.model.sampler.vllm",
    "dph.runs.presample",
    "dph.runs.train",
    "dph.runs.evaluate",
    "dph.runs",
    "dph.results.diagnosis.run_diagnosis",
    "dph.results.diagnosis.changes",
    "dph.results.charts.tables",
    "dph.results.charts.picture",
    "dph.results.plot",
    "dph.results.paper_models",
    "dph.results.paper",
    "dph.results.report.page",
    "dph.results.report.report_data",
    "dph.results.publish",
)
"""What a user may import."""
ASSETS = [Path(__file__).with_name(name) for name in ("iframe-worker.js", "site.css")]
"""What searches where a page was opened from disk, and looks that are not the theme's."""
NOTEBOOKS = sorted(Path("examples/notebooks").glob("*.ipynb"))
EXAMPLE = Path("build/example-report.html")
"""``make docs`` makes it of the quickstart's runs, or of those of a tiny one."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of packages under the page of all of them."""
    place = "reference/python.md"
    pages = [place, *({package: f"reference/{package}.md"} for package in PACKAGES)]
    config.nav = _replaced(config.nav, place, pages)
    return config


def commands_page() -> str:
    """Every verb with its options, as ``--help`` has them."""
    return "\n".join(["# Commands", "", *_commands(get_command(app), "dph", 2)])


def _commands(command: Any, words: str, level: int) -> Iterator[str]:
    """The lines about a verb, or about all verbs of a group."""
    if commands := getattr(command, "commands", None):
        for name, inner in sorted(commands.items()):
            if not inner.hidden:
                yield from _commands(inner, f"{words} {name}", level)
        return
    yield f"{'#' * level} {words}\n\n{inspect.cleandoc(command.help or '')}\n"
    rows = [_option_row(each) for each in command.params if each.name != "help"]
    yield from ["| option | meaning |", "|---|---|", *rows, ""] if rows else [""]


def _option_row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in parameter.opts if name.startswith("-"))
    said = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    return f"| {names or f'`{parameter.metavar or parameter.name}`'} | {said} |"


def _replaced(nav: Any, place: str, pages: list[Any]) -> Any:
    if isinstance(nav, list):
        return [_replaced(entry, place, pages) for entry in nav]
    if isinstance(nav, dict):
        return {title: _replaced(entry, place, pages) for title, entry in nav.items()}
    return pages if nav == place else nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {"reference/recipe.md": recipe_page(), "reference/python.md": python_page()}
    pages |= {f"reference/{package}.md": package_page(package) for package in PACKAGES}
    pages["reference/commands.md"] = commands_page()
    pages |= {f"notebooks/{each.stem}.md": notebook_page(each) for each in NOTEBOOKS}
    pages |= {f"notebooks/{each.name}": each.read_text(encoding="utf-8") for each in NOTEBOOKS}
    pages["example.md"] = example_page(EXAMPLE.is_file())
    pages |= {f"assets/{one.name}": one.read_text(encoding="utf-8") for one in ASSETS}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    if EXAMPLE.is_file():
        report = File.generated(config, "example-report.html", abs_src_path=str(EXAMPLE.resolve()))
        files.append(report)
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """GitHub's Markdown as Python's: the same code in both."""
    return without_backslashes(
        re.sub(
            # It looks like a marked section of SGML, over which Python's HTML parser stumbles.
            r"(`+) ?([^`\n]*<!\[[^`\n]*?) ?\1",
            lambda found: f"<code>{html.escape(found[2])}</code>",
            markdown,
        )
    )


def notebook_page(path: Path) -> str:
    """The cells of a notebook, with a link to it below the title."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    blocks = [
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in zip(cells, texts, strict=True)
    ]
    title, _, rest = blocks[0].partition("\n")
    link = f"[Download this notebook]({path.name}){{download}}"
    return "\n\n".join([title, link, rest.strip(), *blocks[1:]])


def recipe_page() -> str:
    """Every key of a recipe by section, with its default and its meaning."""
    lines = [
        "# Recipes, every key",
        "",
        "Made from the recipe's schema. `*` stands for a name of your choice. "
        "`dph recipe show [RECIPE]` prints the same, with the values of a recipe.",
        "",
    ]
    sections: dict[str, list[Key]] = {}
    for key in keys_of(None):
        sections.setdefault(key.name.rpartition(".")[0], []).append(key)
    for section, keys in sections.items():
        lines += [f"## {f'[{section}]' if section else 'The recipe itself'}", ""]
        lines += ["| key | default | meaning |", "|---|---|---|"]
        lines += [f"| `{key.name}` | {_default(key)} | {_cell(key.meaning)} |" for key in keys]
        lines.append("")
    return "\n".join(lines)


def python_page() -> str:
    """The public packages and what each is for."""
    lines = ["# Python", "", "| package | what it is |", "|---|---|"]
    for package in PACKAGES:
        first = (importlib.import_module(package).__doc__ or "").split("\n")[0]
        lines.append(f"| [`{package}`]({package}.md) | {_cell(first)} |")
    return "\n".join(lines) + "\n"


def package_page(package: str) -> str:
    """A package's docstring and every public name of it.

    Raises:
        PluginError: a name has no docstring.
    """
    module = importlib.import_module(package)
    undocumented = list(undocumented_names(package))
    if undocumented:
        raise PluginError(f"public names without a docstring: {', '.join(undocumented)}")
    blocks = [f"# {package}", "", inspect.getdoc(module) or "", ""]
    places = {name: place_of(package, name) for name in public_names(package)}
    others = {name: place for name, place in places.items() if home_of(place) != package}
    blocks += [f"::: {place}\n" for name, place in places.items() if name not in others]
    if others:
        blocks += ["## From other packages", ""]
        blocks += [f"- [`{name}`]({home_of(place)}.md#{place})" for name, place in others.items()]
    return "\n".join(blocks)


@cache
def home_of(place: str) -> str:
    """The one package whose page documents what is defined at ``place``: the nearest to it."""
    offering = [
        package
        for package in PACKAGES
        if place in {place_of(package, name) for name in public_names(package)}
    ]
    return max(offering, key=lambda package: (place.startswith(f"{package}."), len(package)))


def public_names(package: str) -> list[str]:
    """``__all__``; of a module without one what it defines under a public name."""
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, found in vars(module).items()
        if not name.startswith("_") and getattr(found, "__module__", None) == module.__name__
    ]


def undocumented_names(package: str) -> Iterator[str]:
    """Public functions and classes of a package that nothing is said of."""
    module = importlib.import_module(package)
    for name in public_names(package):
        found = getattr(module, name)
        if (inspect.isclass(found) or inspect.isroutine(found)) and not inspect.getdoc(found):
            yield f"{package}.{name}"


def place_of(package: str, name: str) -> str:
    """Where a public name is defined, which is where its docstring is."""
    found = getattr(importlib.import_module(package), name)
    if inspect.isclass(found) or inspect.isroutine(found):
        return f"{found.__module__}.{found.__qualname__}"
    return f"{package}.{name}"


def example_page(there: bool) -> str:
    """The link to the example report, or how to have one."""
    head = (
        "# An example report\n\nBase model and methods of a quickstart, with every answer. The "
        "numbers of `dph quickstart --tiny` (a few problems) show the page and mean nothing.\n\n"
    )
    if there:
        return head + "[Open it](example-report.html): click through tables, charts and problems.\n"
    return head + (
        "This site was built without one; `make docs` makes it.\n\n"
        "![Overview of a report](report-overview.png)\n"
    )


def _default(key: Key) -> str:
    if key.required:
        return "required"
    return f"`{_cell(str(key.as_json()['default']))}`" if key.as_json()["default"] != "" else '`""`'


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ").replace("<", "&lt;")

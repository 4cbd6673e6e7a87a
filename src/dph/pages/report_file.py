"""``report.html``: everything in one file, which needs no network and runs nothing but its own.

A Content-Security-Policy lets the browser run the scripts and styles whose hashes it names, and
nothing else: no address, no event handler in an attribute, no evaluation of text.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dph.files import write_text
from dph.pages.answer_blocks import answer_blocks
from dph.pages.answers import Limits
from dph.pages.charts import report_charts
from dph.pages.colours import on_dark
from dph.pages.comparison_view import set_tables
from dph.pages.diagnosis_view import diagnosis_views
from dph.pages.marks import marked
from dph.pages.over_seeds import seed_groups
from dph.pages.packed import packed
from dph.pages.report_data import ReportData, ReportRun
from dph.pages.run_facts import differing_settings, run_facts
from dph.pages.vega_scripts import require_charts, vega_script
from dph.reporting.cells import duration, percent
from dph.reporting.labels import method_label, set_label

SCRIPTS = (
    *("text.js", "data.js", "runs.js", "charts.js", "filters.js", "search.js", "list.js"),
    *("problems.js", "tokens.js", "problem.js", "keyboard.js", "main.js"),
)
"""The page's own scripts, in the order in which they are run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The file, its size, and what of it is code (scripts and styles), in bytes."""

    path: Path
    size: int
    code: int
    answers: int


def write_report(
    data: ReportData,
    path: Path,
    *,
    limits: Limits | None = None,
    title: str = "dph report",
    made: datetime | None = None,
) -> Written:
    """Write the report of ``data``; the file appears whole.

    ``made`` is the time that the page gives [default: now].

    Raises:
        SettingsError: altair or vl-convert-python is not installed.
    """
    require_charts()
    blocks = answer_blocks(data, limits or Limits())
    scripts = [vega_script(), _own_script()]
    styles = [_own("style.css"), _colours(data.runs)]
    html = (
        _environment()
        .get_template("report.html")
        .render(
            title=title,
            policy=_policy(scripts, styles),
            styles=[Markup(style) for style in styles],
            vega=Markup(scripts[0]),
            script=Markup(scripts[1]),
            index=packed(_index(data, blocks.index)),
            pieces=blocks.pieces,
            runs=data.runs,
            facts=[run_facts(run) for run in data.runs],
            settings=differing_settings(data.runs),
            tables=set_tables(data),
            groups=seed_groups(data),
            diagnoses=diagnosis_views(data),
            notes=data.notes,
            answers=blocks.answers,
            made=(made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
            version=version("dph-rl"),
        )
    )
    write_text(path, html)
    code = sum(len(text.encode()) for text in (*scripts, *styles))
    return Written(path=path, size=path.stat().st_size, code=code, answers=blocks.answers)


def _index(data: ReportData, answers: dict[str, Any]) -> dict[str, Any]:
    return {
        "runs": [
            {"key": run.key, "label": marked(run.label), "base": run.is_base} for run in data.runs
        ],
        "charts": [chart.document() for chart in report_charts(data)],
        **answers,
    }


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dph.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "percent": percent,
        "set_label": set_label,
        "method_label": method_label,
        "duration": duration,
    }
    return environment


def _shown(value: Any) -> Any:
    """Names of files, styles and databases are others' text; scripts and styles are ours."""
    return marked(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _own(name: str) -> str:
    return files("dph.pages").joinpath("browser", name).read_text(encoding="utf-8")


def _own_script() -> str:
    """The page's scripts as one, whose names are not those of the charts' script."""
    return "(() => {\n" + "\n".join(_own(name) for name in SCRIPTS) + "\n})();\n"


def _colours(runs: Sequence[ReportRun]) -> str:
    lines = (
        f":root {{ --{run.key}: light-dark({run.look.colour}, {on_dark(run.look.colour)}); }}\n"
        f".of-{run.key} {{ --run: var(--{run.key}); }}"
        for run in runs
    )
    return "\n".join(lines) + "\n"


def _policy(scripts: list[str], styles: list[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

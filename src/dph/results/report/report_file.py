"""``report.html``: everything in one file, which needs no network and runs nothing but its own.

A Content-Security-Policy lets the browser run the scripts and styles whose hashes it names, and
nothing else: no address, no event handler in an attribute, no evaluation of text.
"""

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dph._base.files import write_text
from dph.results.report.answer_blocks import answer_blocks
from dph.results.report.answers import Limits
from dph.results.report.charts import report_charts
from dph.results.report.answer_blocks import packed
from dph.results.report.page import FILE_SCRIPTS, page_html, page_script, page_styles, run_index
from dph.results.report.report_data import ReportData
from dph.results.report.page import require_charts, vega_script


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The file, its size, and what of it is code (scripts and styles), in bytes."""

    path: Path
    size: int
    code: int
    answers: int


def write_report(
    data: ReportData,
    path: str | Path,
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
    path = Path(path)
    blocks = answer_blocks(data, limits or Limits())
    scripts = [vega_script(), page_script(FILE_SCRIPTS)]
    styles = page_styles(data.runs)
    html = page_html(
        data,
        title=title,
        made=made,
        served=None,
        policy=_policy(scripts, styles),
        styles=[Markup(style) for style in styles],
        vega=Markup(scripts[0]),
        script=Markup(scripts[1]),
        index=packed(_index(data, blocks.index)),
        pieces=blocks.pieces,
        answers=blocks.answers,
    )
    write_text(path, html)
    code = sum(len(text.encode()) for text in (*scripts, *styles))
    return Written(path=path, size=path.stat().st_size, code=code, answers=blocks.answers)


def _index(data: ReportData, answers: dict[str, Any]) -> dict[str, Any]:
    charts = [chart.document() for chart in report_charts(data)]
    return {"runs": run_index(data.runs), "charts": charts, **answers}


def _policy(scripts: list[str], styles: list[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

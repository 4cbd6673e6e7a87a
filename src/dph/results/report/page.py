"""The page of runs: one template with its styles and scripts, in a file or from a server."""

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from statistics import fmean, median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dph._base.files import write_text
from dph.recipe import Recipe
from dph.records import Outcome
from dph.results.charts.text_table import percent, with_code_points
from dph.results.report.answers import Limits, answer_blocks, packed
from dph.results.report.charts import report_charts
from dph.results.report.report_data import ReportData, ReportRun
from dph.results.report.run_table import run_table
from dph.results.report.verdicts import diagnosed_runs, verdict_lines
from dph.results.vocabulary import DEFINITIONS, on_dark, set_label, where_of
from dph.runs.evaluate.metrics import pass_at_k
from dph.tasks.environments import ToolResult, read_turns

# A diagnosis as the template shows it, out of the document of ``dph diagnose``.

MOST_PROBLEMS = 10
MOST_FEATURES = 8


def clearest(problems: Sequence[Mapping[str, Any]], change: str) -> list[Mapping[str, Any]]:
    """The lost or gained problems that chance explains least; ``alone``: the baseline's only."""
    if change == "alone":
        alone = [one for one in problems if one["baseline_correct"] and not one["correct"]]
        return sorted(alone, key=lambda one: -int(one["baseline_correct"]))[:MOST_PROBLEMS]
    named = [one for one in problems if one["change"] == change]
    return sorted(named, key=lambda one: float(one[f"p_{change}"]))[:MOST_PROBLEMS]


def shown_features(features: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that are named, and the first."""
    return [one for i, one in enumerate(features) if one["named"] or i < MOST_FEATURES]


# Vega, Vega-Lite and Vega-Embed as one script, out of vl-convert: nothing is fetched.
#
# Putting the script together takes seconds and depends on vl-convert's version alone, so it is
# kept in the user's cache directory (``XDG_CACHE_HOME``, else ``~/.cache``) as
# ``dph-rl/vega-<version>.js``.


def vega_script() -> str:
    """The script, which puts ``vegaEmbed`` on the window."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = cache / "dph-rl" / f"vega-{version('vl-convert-python')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    import vl_convert  # noqa: PLC0415 - large

    # An element that holds a script ends at the first of these letters, whatever is around them.
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace(
        "</script", "<\\/script"
    )
    with suppress(OSError):  # no cache directory that can be written: the next report takes as long
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, script)
    return script


FILE_SCRIPTS = (
    *("maths.js", "text.js", "data.js", "runs.js", "charts.js", "training.js", "table.js"),
    *("listed.js", "search.js", "file.js", "filters.js", "list.js", "problems.js", "tokens.js"),
    *("reader.js", "problem.js", "keyboard.js", "main.js"),
)
"""The scripts of the page, in the order in which they are run."""
SERVED_SCRIPTS = ("live.js", *FILE_SCRIPTS)
"""Those of a page that asks the server it came from what is new."""


# Progress of training.


def training_progress(
    path: Path, recipe: Recipe | None, log: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Step ``step`` of ``steps``; None of what has no recipe or has not begun.

    ``running``: a process holds the directory's lock. ``failed``: it ended with a loss that was not
    finite. ``stopped``: it ended before its last step. ``seconds_left`` is None unless it runs.
    """
    if recipe is None:
        return None
    steps, left = recipe.train.steps, None
    step = max((int(row["step"]) for row in log), default=0)
    failed = path / f"failed_batch_step_{step + 1:06d}.json"  # those of earlier tries stay
    state = "failed" if failed.exists() else "stopped"
    if step >= steps:
        state = "finished"
    elif _inode(path / ".lock") in _held_locks():
        state = "running"
        seconds = [row["seconds"] for row in log if isinstance(row.get("seconds"), int | float)]
        left = (steps - step) * median(seconds[-20:]) if seconds else None  # of the latest steps
    found = {"stage": "training", "step": step, "steps": steps, "state": state}
    return {**found, "seconds_left": left} if step or state == "running" else None


def _held_locks() -> set[int]:
    """Inodes of the files that some process has locked; none where the kernel does not list them.

    Trying a lock would keep a run from starting at that moment, so the list is read.
    """
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return set()
    fields = (line.split() for line in lines)
    return {int(of[5].rpartition(":")[2]) for of in fields if len(of) > 5 and of[1] != "->"}


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


# Trajectories of an environment: turns that answers took, and what their tools came to.


def turn_facts(runs: Sequence[ReportRun]) -> list[dict[str, Any]]:
    """Of every run whose answers are trajectories, and every set; greedy answers are left out."""
    found = []
    for run in runs:
        recipe = run.results.recipe
        if run.samples is None or recipe is None or recipe.environment.path is None:
            continue
        by_set: dict[str, list[Mapping[str, Any]]] = {}
        for row in run.samples.to_pylist():
            if row["sample_index"] >= 0:
                by_set.setdefault(row["set"], []).append(row)
        found += [_turn_facts(run, name, rows) for name, rows in by_set.items()]
    return found


def _turn_facts(run: ReportRun, name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Turns and tools of a run's samples on a set, as the template shows them."""
    taken: list[int] = []
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for row in rows:
        turns = read_turns(row["text"])
        taken.append(sum(not turn.by for turn in turns))
        results = [turn for turn in turns if turn.by not in ("", "reset")]
        calls.update(turn.by for turn in results)
        failed.update(turn.by for turn in results if ToolResult(turn.by, turn.text).is_error)
    samples = run.scores[name].samples
    right = [row["outcome"] == Outcome.CORRECT for row in rows]
    each: dict[str, Counter[int]] = {row["problem_id"]: Counter() for row in rows}
    for row, turns_taken, is_right in zip(rows, taken, right, strict=True):
        each[row["problem_id"]][turns_taken] += is_right
    by_turns = []
    for most in sorted(set(taken)):
        solved = (sum(n for t, n in of.items() if t <= most) for of in each.values())
        row = {
            "turns": most,
            "share": taken.count(most) / len(rows),
            "right": fmean(ok for ok, turns in zip(right, taken, strict=True) if turns == most),
            # Answers with no more turns than these count as right.
            "within": fmean(pass_at_k(samples, count, samples) for count in solved),
        }
        by_turns.append(row)
    by_tool = [
        {"tool": tool, "calls": calls[tool] / len(rows), "failed": failed[tool] / calls[tool]}
        for tool in sorted(calls)
    ]
    found = {"key": run.key, "label": run.label, "set_name": name, "k": samples}
    return {**found, "turns": by_turns, "tools": by_tool}


# The page itself.


def page_html(
    data: ReportData, *, title: str, lead: str = "", made: datetime | None = None, **parts: Any
) -> str:
    """The page of ``data``; ``parts`` are what the template says of a file or of a server.

    ``made`` is the time that the page gives [default: now].
    """
    template = _environment().get_template("report.html")
    return template.render(
        title=title,
        lead=lead,
        runs=data.runs,
        verdicts=verdict_lines(data),
        sets=list(data.comparison),
        trajectories=turn_facts(data.runs),
        diagnoses=data.diagnoses,
        diagnosed=diagnosed_runs(data),
        notes=data.notes,
        made=(made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        version=version("dph-rl"),
        **parts,
    )


def page_styles(data: ReportData) -> list[str]:
    """The page's styles, and the colours of the runs and of groups of seeds."""
    colours = [
        f":root {{ --{key}: light-dark({look.colour}, {on_dark(look.colour)}); }}\n"
        f".of-{key} {{ --run: var(--{key}); }}\n"
        for key, (_, look) in data.drawn.items()
    ]
    return [_own("style.css"), "".join(colours)]


def page_script(names: Sequence[str]) -> str:
    """Scripts of the page as one, whose names are not those of the charts' script."""
    return "(() => {\n" + "\n".join(_own(name) for name in names) + "\n})();\n"


def page_index(data: ReportData) -> dict[str, Any]:
    """Runs, groups of seeds and words as the page's scripts know them."""
    labels = {key: with_code_points(label) for key, (label, _) in data.drawn.items()}
    runs = [{"key": of.key, "label": labels[of.key], "base": of.is_base} for of in data.runs]
    groups = [{"key": g.key, "label": labels[g.key], "runs": list(g.runs)} for g in data.groups]
    progress = progress_of(data.runs)
    return {"runs": runs, "groups": groups, "words": dict(DEFINITIONS), "progress": progress}


def progress_of(runs: Sequence[ReportRun]) -> list[dict[str, Any]]:
    """Steps that each run has trained, a row a stage."""
    found = {run.key: training_progress(run.path, run.recipe, run.log) for run in runs}
    return [{"key": key, **one} for key, one in found.items() if one is not None]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dph.results.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "clearest": clearest,
        "shown_features": shown_features,
        "percent": percent,
        "set_label": set_label,
        "where_of": where_of,
    }
    return environment


def _shown(value: Any) -> Any:
    """Names of files, styles and databases are others' text; scripts and styles are ours."""
    others = isinstance(value, str) and not isinstance(value, Markup)
    return with_code_points(value) if others else value


def _own(name: str) -> str:
    return files("dph.results.report").joinpath("browser", name).read_text(encoding="utf-8")


# ``report.html``: everything in one file, which needs no network and runs nothing but its own.
#
# A Content-Security-Policy lets the browser run the scripts and styles whose hashes it names, and
# nothing else: no address, no event handler in an attribute, no evaluation of text.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
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
    lead: str = "",
    made: datetime | None = None,
) -> ReportFile:
    """Write the report of ``data``; the file appears whole.

    ``lead`` is a sentence above the verdicts, ``made`` the time that the page gives [default: now].
    """
    path = Path(path)
    blocks = answer_blocks(data, limits or Limits())
    scripts = [vega_script(), page_script(FILE_SCRIPTS)]
    styles = page_styles(data)
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    html = page_html(
        data,
        title=title,
        lead=lead,
        made=made,
        served=None,
        policy=policy,
        styles=[Markup(style) for style in styles],
        vega=Markup(scripts[0]),
        script=Markup(scripts[1]),
        index=packed(report_index(data, blocks.index)),
        pieces=blocks.pieces,
        answers=blocks.answers,
    )
    write_text(path, html)
    code = sum(len(text.encode()) for text in (*scripts, *styles))
    return ReportFile(path=path, size=path.stat().st_size, code=code, answers=blocks.answers)


def report_index(data: ReportData, answers: dict[str, Any]) -> dict[str, Any]:
    """All of the page but texts: runs, charts, the table, and ``answers``, the index of those."""
    charts = [chart.document() for chart in report_charts(data)]
    return {**page_index(data), "charts": charts, "table": run_table(data), **answers}


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

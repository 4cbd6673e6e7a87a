"""What the natural world's directories hold, as markdown: forms, sets, the base model, methods."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_text
from dph.results.vocabulary import method_label
from dph.runs.directory import EVALUATION
from lab.benchmarks.natural_world.forms import FORMS
from lab.benchmarks.natural_world.sets import EVALUATED
from lab.worlds.world import MANIFEST

START, END = "<!-- natural: begin -->", "<!-- natural: end -->"
GOAL = 30
"""Pass@16 in per cent from which on the base model knows enough for RL to choose from."""


def report(out: Path) -> str:
    """The tables of every seed in ``out``."""
    parts = [forms_table(read_json(path) for path in sorted((out / "forms").glob("*.json")))]
    for directory in sorted(path.parent.parent for path in out.glob(f"*/world/{MANIFEST}")):
        if (directory / "base" / EVALUATION).exists():
            parts += [_seed_text(directory), scores_table(_evaluations(directory))]
    return "\n".join(parts)


def forms_table(files: Iterator[Mapping[str, Any]]) -> str:
    """How many queries each form was tried on, and how many of them it returned the same rows."""
    tried, refused, queries, known = Counter[str](), Counter[str](), 0, 0
    for file in files:
        tried.update(file["tried"])
        refused.update(file["refused"])
        queries += len(file["forms"])
        known += sum("plain" in forms for forms in file["forms"].values())
    lines = ["| form | queries | same rows |", "|---|---:|---:|"]
    for name in FORMS:
        same = tried[name] - refused[name]
        share = f" ({100 * same / tried[name]:.0f}%)" if tried[name] else ""
        lines.append(f"| {name} | {tried[name]} | {same}{share} |")
    note = f"Of {queries} queries {known} are understood and return something that tells."
    return "\n".join([*lines, "", note, ""])


def _seed_text(directory: Path) -> str:
    counts = read_json(directory / "world" / MANIFEST)["counts"]
    facts = read_json(directory / "base_model.json")
    sets = ", ".join(f"{name} {count}" for name, count in counts.items())
    return (
        f"Seed {directory.name}: questions by set: {sets}. Base model of "
        f"{facts['weights'] / 1e6:.1f} million weights, {facts['steps']} steps in "
        f"{facts['cpu_seconds'] / 60:.1f} CPU-minutes.\n"
    )


def _evaluations(directory: Path) -> dict[str, Mapping[str, Any]]:
    """The sets of each evaluated model, the base first."""
    found = {"base": read_json(directory / "base" / EVALUATION)["sets"]}
    for path in sorted(directory.glob(f"*/{EVALUATION}")):
        if path.parent.name != "base":
            found[path.parent.name] = read_json(path)["sets"]
    return found


def scores_table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Scores in per cent, and how many forms are effectively left, on each set."""
    titles = ["greedy", "mean@1", "pass@16", "forms"]
    header = [title for name in EVALUATED for title in (f"{name}: greedy", *titles[1:])]
    lines = [f"| {' | '.join(['', *header])} |", f"|---|{'---:|' * len(header)}"]
    for name, sets in models.items():
        cells = [cell for of_set in EVALUATED for cell in _cells(sets[of_set])]
        label = name if name == "base" else method_label(name)
        lines.append(f"| {' | '.join([label, *cells])} |")
    return "\n".join(lines) + "\n"


def _cells(scores: Mapping[str, Any]) -> list[str]:
    fractions = (scores["greedy"], scores["mean"], scores["pass_at_k"]["16"])
    styles = scores["effective_styles"]
    return [*(f"{100 * x:.1f}" for x in fractions), "" if styles is None else f"{styles:.1f}"]


def write_between(path: Path, text: str) -> None:
    """Put ``text`` between the markers of a page.

    Raises:
        SystemExit: the page has no such markers.
    """
    page = path.read_text(encoding="utf-8")
    before, found, rest = page.partition(START)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"there is no {START} ... {END} in {path}")
    write_text(path, f"{before}{START}\n{text}{END}{after}")

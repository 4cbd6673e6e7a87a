"""Running a cookbook: every stage in order, what it made, and the report."""

import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dph._base.files import make_directory, only_writer, read_json, write_json, write_text
from dph._base.provenance import versions
from dph.results.charts.text_table import markdown_rows, percent
from dph.results.vocabulary import interval_of, value_of
from dph.runs.progress import ProgressDisplay
from dph_corpus import open_corpus
from dph_corpus.cookbook.model_stages import evaluations
from dph_corpus.cookbook.settings import Cookbook
from dph_corpus.cookbook.stages import STAGES, Digests, Pipeline
from dph_corpus.shards import Corpus

# scores.json of a cookbook: what was measured of every model, and by what it was computed.

SCORES = "scores.json"
SCHEMA = 1


def write_scores(pipeline: Pipeline) -> None:
    """Write ``scores.json`` into the cookbook's directory.

    ``models`` has the ``sets`` of each ``evaluation.json``, by the name that the report has. Scores
    depend on the kernels that ``computed_by`` ends with: another processor's round otherwise.
    """
    found = evaluations(pipeline)
    document = {
        "schema": SCHEMA,
        "seed": pipeline.cookbook.seed,
        "model_seed": pipeline.cookbook.seed_of_models,
        "computed_by": computed_by(),
        "samples": next(iter(found.values()))["samples"],
        "models": {name: evaluation["sets"] for name, evaluation in found.items()},
    }
    write_json(pipeline.directory / SCORES, document)


def computed_by() -> str:
    """The versions that decide numbers, and the kernels of this processor."""
    return versions(torch.backends.cpu.get_cpu_capability())


# report.md of a cookbook: what came in and stayed, what was dropped, what was measured.

_REASONS, _LANGUAGES, _EXAMPLES = 12, 6, 2


def write_report(
    pipeline: Pipeline, digests: Mapping[str, Digests], costs: Mapping[str, Mapping[str, float]]
) -> None:
    """Write ``report.md`` into the cookbook's directory."""
    seeds = f"Seed {pipeline.cookbook.seed}, of the models {pipeline.cookbook.seed_of_models}."
    parts = [f"# {pipeline.cookbook.name}", seeds]
    for name in (*pipeline.cookbook.corpora, *pipeline.cookbook.synth):
        stages = pipeline.corpus_stages(name)
        corpora = {s: open_corpus(pipeline.corpus_stage(s, name)) for s in stages}
        parts += [f"## The corpus {name}", *_funnel(corpora), *_dropped(corpora)]
    parts += [*_mixtures(pipeline), *_rows(pipeline), *_models(pipeline)]
    parts += ["## Costs", _table(("stage", "s", "CPU s"), _cost_rows(costs))]
    parts += ["## Digests", _table(("stage", "what", "digest"), _digest_rows(digests))]
    write_text(pipeline.directory / "report.md", "\n\n".join(parts) + "\n")


def _funnel(corpora: Mapping[str, Corpus]) -> Iterator[str]:
    """Documents and bytes after each stage, in all and of the largest languages."""
    sizes: dict[str, dict[str, int]] = {}
    for stage, corpus in corpora.items():
        for (_, language), passage in corpus.manifest.flow.passages.items():
            of_stage = sizes.setdefault(language or "unknown", {})
            of_stage[stage] = of_stage.get(stage, 0) + passage.kept_bytes
    largest = sorted(sizes, key=lambda name: -max(sizes[name].values()))[:_LANGUAGES]
    rows = []
    for stage, corpus in corpora.items():
        total = corpus.manifest.flow.total()
        by_language = (_megabytes(sizes[name].get(stage, 0)) for name in largest)
        rows.append((stage, total.kept_documents, _megabytes(total.kept_bytes), *by_language))
    yield _table(("after", "documents", "MB", *(f"{name}, MB" for name in largest)), rows)
    skipped = next(iter(corpora.values())).manifest.flow.skipped
    if skipped:
        told = ", ".join(f"{name} {count}" for name, count in sorted(skipped.items()))
        yield f"Never documents: {told}."


def _dropped(corpora: Mapping[str, Corpus]) -> Iterator[str]:
    """Dropped documents by reason, with examples."""
    rows = []
    for stage, corpus in corpora.items():
        reasons = sorted(corpus.manifest.flow.reasons.items(), key=lambda item: -item[1].documents)
        for name, reason in reasons[:_REASONS]:
            examples = ", ".join(f"`{one}`" for one in reason.examples[:_EXAMPLES])
            rows.append((stage, f"`{name}`", reason.documents, reason.solo, examples))
    if rows:
        yield "Dropped (alone: for no other reason):"
        yield _table(("stage", "reason", "documents", "alone", "for example"), rows)


def _mixtures(pipeline: Pipeline) -> Iterator[str]:
    rows = []
    for name, settings in pipeline.cookbook.mixtures.items():
        counts = open_corpus(pipeline.directory / "mixtures" / name).manifest.flow.counts
        for part in settings.shares:
            taken, short = counts[f"bytes {part}"], counts[f"short {part}"]
            rows.append((name, part, _megabytes(taken), _megabytes(short)))
    if rows:
        yield "## Mixtures"
        yield _table(("mixture", "part", "MB", "short by, MB"), rows)


def _rows(pipeline: Pipeline) -> Iterator[str]:
    rows = []
    for name in pipeline.cookbook.instruct:
        manifest = read_json(pipeline.directory / "instruct" / name / "manifest.json")
        left = ", ".join(f"{reason} {count}" for reason, count in manifest["left_out"].items())
        for part, taken in manifest["taken"].items():
            read, short = manifest["read"].get(part, 0), manifest["short"][part]
            rows.append((name, part, read, taken, short, left or "none"))
    if rows:
        yield "## Rows of fine-tuning"
        yield _table(("stage", "part", "read", "taken", "short by", "left out"), rows)


def _models(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.cookbook.rl is None:
        return
    found = evaluations(pipeline)
    for set_name in next(iter(found.values()))["sets"]:
        summaries = {name: document["sets"][set_name] for name, document in found.items()}
        first = next(iter(summaries.values()))
        metrics = ("greedy", *(f"pass_at_{k}" for k in sorted(first["pass_at_k"], key=int)))
        rows = [
            (name, *(percent(value_of(of, m), interval_of(of, m)) for m in metrics))
            for name, of in summaries.items()
        ]
        yield f"## Pass@k on {set_name}"
        yield (
            f"{first['problems']} problems, {next(iter(found.values()))['samples']} samples each, "
            "in per cent with 95% intervals over problems. They come from one seed and one "
            f"processor ({computed_by()}): others train different models with different scores."
        )
        yield _table(("model", *(m.replace("pass_at_", "pass@") for m in metrics)), rows)


def _cost_rows(costs: Mapping[str, Mapping[str, float]]) -> Iterator[Sequence[Any]]:
    for name, cost in costs.items():
        yield name, f"{cost['seconds']:.0f}", f"{cost['cpu_seconds']:.0f}"
    totals = [sum(cost[key] for cost in costs.values()) for key in ("seconds", "cpu_seconds")]
    yield "all", *(f"{total:.0f}" for total in totals)


def _digest_rows(digests: Mapping[str, Digests]) -> Iterator[Sequence[Any]]:
    for stage, made in digests.items():
        for name, value in made.items():
            yield stage, name, f"`{value[:16]}`"


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return markdown_rows(header, rows, left=len(header))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f}"


# What the stages cost: seconds that passed, and seconds of processor time of all processes.


class StageCosts:
    """Costs by stage in ``path``, added up over the times that a stage was run.

    What a process spent that was killed is not known and not counted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, dict[str, float]]:
        """``{stage: {"seconds", "cpu_seconds"}}``."""
        return dict(read_json(self._path)) if self._path.is_file() else {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what the block costs to ``name``."""
        wall, cpu = time.perf_counter(), _processor_time()
        try:
            yield
        finally:
            spent: dict[str, Any] = self.read()
            before = spent.get(name, {"seconds": 0.0, "cpu_seconds": 0.0})
            spent[name] = {
                "seconds": round(before["seconds"] + time.perf_counter() - wall, 2),
                "cpu_seconds": round(before["cpu_seconds"] + _processor_time() - cpu, 2),
            }
            write_json(self._path, spent)


def _processor_time() -> float:
    """Seconds of this process and of its children that have ended, and theirs."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


DIGESTS, COSTS = "digests.json", "costs.json"


def run_cookbook(
    cookbook: Cookbook, directory: Path, progress: ProgressDisplay, *, workers: int
) -> Mapping[str, Digests]:
    """Run everything that is not done yet in ``directory`` and return the digests by stage.

    Leaves a directory for each stage, ``digests.json`` (what each stage made: the same for the same
    inputs and settings), ``scores.json`` (what was measured), ``costs.json`` and ``report.md``.
    Killed at any moment and started again it goes on; with other settings, the stages that they
    touch and those after them are done again.

    Args:
        cookbook: what is run.
        directory: where everything is written.
        progress: told of every stage.
        workers: processes; they decide nothing but time.
    """
    pipeline = Pipeline(
        cookbook=cookbook, directory=directory.resolve(), progress=progress, workers=workers
    )
    made: dict[str, Any] = {}
    with only_writer(make_directory(directory)):
        costs = StageCosts(directory / COSTS)
        for stage in STAGES:
            with costs.stage(stage.name):
                if digests := dict(stage.run(pipeline)):
                    made[stage.name] = digests
        write_json(directory / DIGESTS, made)
        if cookbook.rl is not None:
            write_scores(pipeline)
        write_report(pipeline, made, costs.read())
    return made

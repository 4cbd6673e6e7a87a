"""Logs of Inspect in a directory: one for the samples of each set, one for its greedy answers.

A log is a ZIP file with a JSON document a sample, so ``inspect view`` reads what it shows and no
more, and a log of a million answers never is in memory.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph import __version__
from dph._base.files import atomic_path, make_directory
from dph.errors import DataError
from dph.recipe import Recipe, recipe_digest
from dph.records import Outcome, Problem
from dph.results.read.run_results import RunResults, read_set_problems
from dph.runs.evaluate.samples_file import GREEDY_INDEX, samples_digest
from dph.tasks.environments import read_turns
from dph.tasks.inspect import SCORER, target_of

# The JSON documents that a log of Inspect is made of (its log format, version 2).

VERSION = 2
_CORRECT, _INCORRECT = "C", "I"
_LONGEST = 1_000
"""Characters of a prompt or gold answer in the list of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """Values common to all samples of a log.

    ``task`` is the set, ``when`` an ISO date with its zone, ``digest`` names the evaluation;
    ``metrics`` are the set's scores (fractions), ``ci95`` their intervals where there are any;
    ``acts`` says that answers are trajectories in an environment.
    """

    task: str
    run: str
    model: str
    when: str
    digest: str
    epochs: int
    sample_ids: tuple[str, ...]
    metrics: Mapping[str, float]
    ci95: Mapping[str, Any]
    generation: Mapping[str, Any]
    metadata: Mapping[str, Any]
    acts: bool = False


def log_header(head: LogHead, *, scored: int, unscored: int) -> dict[str, Any]:
    """``header.json``: the log without its samples."""
    metrics = {
        name: {"name": name, "value": value, "params": {}} for name, value in head.metrics.items()
    }
    score = {
        "name": SCORER,
        "scorer": SCORER,
        "scored_samples": scored,
        "unscored_samples": unscored,
        "params": {},
        "metrics": metrics,
        "metadata": {"ci95": dict(head.ci95)},
    }
    total = scored + unscored
    return {
        "version": VERSION,
        "status": "success",
        "eval": log_spec(head),
        "plan": log_plan(),
        "results": {"total_samples": total, "completed_samples": total, "scores": [score]},
        "stats": {"started_at": head.when, "completed_at": head.when, "model_usage": {}},
    }


def log_plan() -> dict[str, Any]:
    """Generation of answers: one generation each."""
    return {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}}


def log_spec(head: LogHead) -> dict[str, Any]:
    """Specification of the evaluation; ids are made from its digest, so they stay the same."""
    return {
        "eval_id": _id("eval", head),
        "run_id": _id("run", head),
        "task_id": _id("task", head),
        "created": head.when,
        "task": head.task,
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "dataset": {
            "name": head.task,
            "samples": len(head.sample_ids),
            "sample_ids": list(head.sample_ids),
            "shuffled": False,
        },
        "model": head.model,
        "model_generate_config": dict(head.generation),
        "model_args": {},
        "config": {"epochs": head.epochs},
        "packages": {"dph-rl": __version__},
        "scorers": [{"name": SCORER, "options": {}, "metrics": [], "metadata": {}}],
        "metadata": {"run": head.run, **head.metadata},
    }


def log_sample(
    head: LogHead, problem: Problem | None, row: Mapping[str, Any], epoch: int
) -> dict[str, Any]:
    """A sample: one answer to one problem. ``row`` is one of ``samples.parquet``.

    A problem that cannot be graded (BAD_GOLD) has no score: it says nothing about the model.
    """
    asked = _messages(problem)
    said = _turns(row["text"]) if head.acts else [_assistant(row["text"])]
    answer = next((m for m in reversed(said) if m["role"] == "assistant"), _assistant(""))
    tokens = row["tokens"] or 0  # other tools' answers have no number of them
    usage = {"input_tokens": 0, "output_tokens": tokens, "total_tokens": tokens}
    return {
        "id": row["problem_id"],
        "epoch": epoch,
        "input": asked,
        "target": target_of(problem),
        "messages": [*asked, *said],
        "output": {
            "model": head.model,
            "choices": [
                {"message": answer, "stop_reason": "stop" if row["finished"] else "max_tokens"}
            ],
            "completion": row["text"],
            "usage": usage,
        },
        "scores": _scores(row),
        "metadata": {
            "outcome": row["outcome"],
            "reason": row["reason"],
            "style": row["style"],
            "reward": row["reward"],
            **({} if problem is None else dict(problem.answer)),
        },
        "uuid": _id(f"{row['problem_id']} {epoch}", head),
    }


def sample_summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the list of samples; texts are cut to 1,000 characters."""
    asked = [{**message, "content": message["content"][:_LONGEST]} for message in sample["input"]]
    return {
        "id": sample["id"],
        "epoch": sample["epoch"],
        "input": asked,
        "target": sample["target"][:_LONGEST],
        "metadata": {"outcome": sample["metadata"]["outcome"]},
        "scores": sample["scores"],
        "uuid": sample["uuid"],
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def is_scored(row: Mapping[str, Any]) -> bool:
    """Whether an answer's verdict is about the model."""
    return bool(row["outcome"] != Outcome.BAD_GOLD.value)


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    if not is_scored(row):
        return {}
    right = row["outcome"] == Outcome.CORRECT.value
    score = {"value": _CORRECT if right else _INCORRECT, "answer": row["text"]}
    score["explanation"] = ": ".join(filter(None, (row["outcome"], row["reason"])))
    return {SCORER: score}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "source": "generate"}


def _turns(text: str) -> list[dict[str, Any]]:
    """Messages of a trajectory: words of ``reset`` are the user's, those of tools their own."""
    messages = []
    for turn in read_turns(text):
        told = {"role": "tool", "content": turn.text, "function": turn.by}
        reset = {"role": "user", "content": turn.text, "source": "input"}
        other = reset if turn.by == "reset" else told
        messages.append(other if turn.by else _assistant(turn.text))
    return messages


def _messages(problem: Problem | None) -> list[dict[str, Any]]:
    if problem is None:
        return []
    if isinstance(problem.prompt, str):
        return [{"role": "user", "content": problem.prompt, "source": "input"}]
    return [{**message, "source": "input"} for message in problem.prompt]


def _id(what: str, head: LogHead) -> str:
    return recipe_digest(what, head.digest, head.task, head.epochs)


_ROWS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectLog:
    """A log that was written: the set that it is about, its file, and its answers."""

    set_name: str
    path: Path
    answers: int


def write_inspect_logs(
    run: Path, out: Path, *, on_progress: Callable[[int], None] = lambda _: None
) -> tuple[list[InspectLog], list[str]]:
    """Write ``<out>/<set>.eval`` and ``<out>/<set>-greedy.eval`` for every set of a run.

    A sample is an epoch of Inspect's; scores are ``verdict``: C or I, with outcome and reason. Also
    returned is what is missing from the logs: prompts that neither the run nor its recipe knows.
    """
    results = RunResults(run)
    table = results.answers()
    # An initial policy in a run was not trained by the run's recipe.
    recipe = results.recipe if results.place.recipe_file.is_file() else None
    problems, notes = read_set_problems({results: recipe})
    if out.exists() and not out.is_dir():
        raise DataError(f"--out names the directory of the logs, {out} is a file")
    summaries = (results.evaluation or {}).get("sets", {})
    logs = []
    for name in dict.fromkeys(table["set"].to_pylist()):
        of_set = table.filter(pc.field("set") == name)
        for greedy in (False, True):
            chosen = of_set.filter((pc.field("sample_index") == GREEDY_INDEX) == greedy)
            if not chosen.num_rows:
                continue
            path = out / f"{_file_name(name)}{'-greedy' if greedy else ''}.eval"
            head = _head(results, recipe, name, chosen, summaries.get(name, {}), greedy=greedy)
            make_directory(out)
            _write_log(path, head, chosen, problems.get(name, {}), on_progress)
            logs.append(InspectLog(set_name=name, path=path, answers=chosen.num_rows))
    return logs, notes


def _write_log(
    path: Path,
    head: LogHead,
    table: pa.Table,
    problems: Mapping[str, Problem],
    on_progress: Callable[[int], None],
) -> None:
    summaries, scored = [], 0
    with (
        atomic_path(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as log,
    ):
        start = {"version": VERSION, "eval": log_spec(head), "plan": log_plan()}
        _add(log, "_journal/start.json", start)
        for row in _rows(table):
            epoch = max(row["sample_index"], 0) + 1
            sample = log_sample(head, problems.get(row["problem_id"]), row, epoch)
            _add(log, f"samples/{row['problem_id']}_epoch_{epoch}.json", sample)
            summaries.append(sample_summary(sample))
            scored += is_scored(row)
            on_progress(1)
        _add(log, "summaries.json", summaries)
        header = log_header(head, scored=scored, unscored=table.num_rows - scored)
        _add(log, "header.json", header)


def _add(log: zipfile.ZipFile, name: str, document: Any) -> None:
    """Every entry has the same date, so the same run gives the same bytes."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    log.writestr(info, json.dumps(document, ensure_ascii=False, allow_nan=False))


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


def _head(
    run: RunResults,
    recipe: Recipe | None,
    set_name: str,
    table: pa.Table,
    summary: Mapping[str, Any],
    *,
    greedy: bool,
) -> LogHead:
    written = datetime.fromtimestamp(int(run.samples.stat().st_mtime), UTC)
    metrics, ci95 = _metrics(summary, greedy=greedy)
    return LogHead(
        task=f"{set_name} (greedy)" if greedy else set_name,
        run=str(run.path),
        model=f"dph/{run.path.absolute().name}",
        when=written.isoformat(),
        digest=samples_digest(run.samples) or str(run.path.absolute()),
        epochs=1 if greedy else max(table["sample_index"].to_pylist()) + 1,
        sample_ids=tuple(dict.fromkeys(table["problem_id"].to_pylist())),
        metrics=metrics,
        ci95=ci95,
        generation=_generation(recipe, greedy=greedy),
        metadata={} if recipe is None else {"method": recipe.method, "seed": recipe.seed},
        acts=recipe is not None and recipe.environment.path is not None,
    )


def _metrics(
    summary: Mapping[str, Any], *, greedy: bool
) -> tuple[dict[str, float], dict[str, Any]]:
    """Scores of the set and their intervals, out of evaluation.json."""
    if greedy:
        found = {"accuracy": summary.get("greedy")}
        ci95 = {"accuracy": summary.get("ci95", {}).get("greedy")}
    else:
        found = {f"pass_at_{k}": value for k, value in summary.get("pass_at_k", {}).items()}
        found |= {key: summary.get(key) for key in ("mean", "effective_styles")}
        ci95 = {key: summary.get("ci95", {}).get(key) for key in found}
    known = {key: float(value) for key, value in found.items() if value is not None}
    return known, {key: ci95[key] for key in known if ci95[key] is not None}


def _generation(recipe: Recipe | None, *, greedy: bool) -> dict[str, Any]:
    if recipe is None:
        return {}
    limit = {"max_tokens": recipe.sampling.max_tokens}
    if greedy:
        return {**limit, "temperature": 0.0}
    return {
        **limit,
        "temperature": recipe.evaluate.temperature,
        "top_p": recipe.evaluate.top_p,
    }


def _file_name(set_name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in set_name)

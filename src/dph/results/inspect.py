"""Logs of Inspect in a directory: one for the samples of each set, one for its greedy answers.

A log is a ZIP file with a JSON document a sample, so ``inspect view`` reads what it shows and no
more, and a log of a million answers never is in memory.
"""

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
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

VERSION = 2
"""Of Inspect's log format."""
_LONGEST = 1_000
"""Characters of a prompt or gold answer in the list of samples."""


def write_inspect_logs(
    run: Path, out: Path, *, on_progress: Callable[[int], None] = lambda _: None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Write ``<out>/<set>.eval`` and ``<out>/<set>-greedy.eval`` for every set of a run.

    A sample is an epoch of Inspect's; scores are ``verdict``: C or I, with outcome and reason.
    Returned are the set, the file and the number of answers of each log, and what is missing:
    prompts that neither the run nor its recipe knows.
    """
    results = RunResults(run)
    table = results.answers()
    # An initial policy in a run was not trained by the run's recipe.
    recipe = results.recipe if results.place.recipe_file.is_file() else None
    problems, notes = read_set_problems({results: recipe})
    if out.exists() and not out.is_dir():
        raise DataError(f"--out names the directory of the logs, {out} is a file")
    logs = []
    for name in dict.fromkeys(table["set"].to_pylist()):
        of_set = table.filter(pc.field("set") == name)
        file_name = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
        for greedy in (False, True):
            chosen = of_set.filter((pc.field("sample_index") == GREEDY_INDEX) == greedy)
            if not chosen.num_rows:
                continue
            head = _LogHead(run=results, recipe=recipe, set_name=name, greedy=greedy)
            path = make_directory(out) / f"{file_name}{'-greedy' if greedy else ''}.eval"
            with atomic_path(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as log:
                head.write(log, chosen, problems.get(name, {}), on_progress)
            logs.append({"set": name, "log": str(path), "answers": chosen.num_rows})
    return logs, notes


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogHead:
    """A log of one set's samples, or of its greedy answers."""

    run: RunResults
    recipe: Recipe | None
    set_name: str
    greedy: bool

    @property
    def model(self) -> str:
        return f"dph/{self.run.path.absolute().name}"

    def write(
        self,
        log: zipfile.ZipFile,
        table: pa.Table,
        problems: Mapping[str, Problem],
        on_progress: Callable[[int], None],
    ) -> None:
        """Write the JSON documents that a log is made of, a sample at a time."""
        # True if answers are trajectories in an environment.
        acts = self.recipe is not None and self.recipe.environment.path is not None
        task = f"{self.set_name} (greedy)" if self.greedy else self.set_name
        epochs = 1 if self.greedy else max(table["sample_index"].to_pylist()) + 1
        digest = samples_digest(self.run.samples) or str(self.run.path.absolute())

        def made_id(what: str) -> str:
            """An id that stays the same when the log is written again."""
            return recipe_digest(what, digest, task, epochs)

        ids = list(dict.fromkeys(table["problem_id"].to_pylist()))
        spec = self._spec(task, epochs, ids)
        spec |= {f"{what}_id": made_id(what) for what in ("eval", "run", "task")}
        plan = {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}}
        start = {"version": VERSION, "eval": spec, "plan": plan}
        _add(log, "_journal/start.json", start)
        summaries, scored = [], 0
        for batch in table.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                problem, epoch = problems.get(row["problem_id"]), _epoch(row)
                uuid = made_id(f"{row['problem_id']} {epoch}")
                sample = log_sample(problem, row, model=self.model, uuid=uuid, acts=acts)
                _add(log, f"samples/{row['problem_id']}_epoch_{epoch}.json", sample)
                summaries.append(_summary(sample))
                scored += bool(sample["scores"])
                on_progress(1)
        _add(log, "summaries.json", summaries)
        results = {
            "total_samples": table.num_rows,
            "completed_samples": table.num_rows,
            "scores": [self._scores(scored, table.num_rows - scored)],
        }
        made = spec["created"]
        stats = {"started_at": made, "completed_at": made, "model_usage": {}}
        _add(log, "header.json", {**start, "status": "success", "results": results, "stats": stats})

    def _spec(self, task: str, epochs: int, sample_ids: Sequence[str]) -> dict[str, Any]:
        written = datetime.fromtimestamp(int(self.run.samples.stat().st_mtime), UTC)
        recipe, generation = self.recipe, dict[str, Any]()
        metadata: dict[str, Any] = {"run": str(self.run.path)}
        if recipe is not None:
            metadata |= {"method": recipe.method, "seed": recipe.seed}
            generation = {"max_tokens": recipe.sampling.max_tokens, "temperature": 0.0}
            if not self.greedy:
                evaluate = recipe.evaluate
                generation |= {"temperature": evaluate.temperature, "top_p": evaluate.top_p}
        return {
            "created": written.isoformat(),
            "task": task,
            "task_version": 0,
            "task_attribs": {},
            "task_args": {},
            "dataset": {
                "name": task,
                "samples": len(sample_ids),
                "sample_ids": sample_ids,
                "shuffled": False,
            },
            "model": self.model,
            "model_generate_config": generation,
            "model_args": {},
            "config": {"epochs": epochs},
            "packages": {"dph-rl": __version__},
            "scorers": [{"name": SCORER, "options": {}, "metrics": [], "metadata": {}}],
            "metadata": metadata,
        }

    def _scores(self, scored: int, unscored: int) -> dict[str, Any]:
        """Scores of the set and their intervals, out of evaluation.json."""
        summary = (self.run.evaluation or {}).get("sets", {}).get(self.set_name, {})
        intervals = summary.get("ci95", {})
        if self.greedy:
            found = {"accuracy": summary.get("greedy")}
            intervals = {"accuracy": intervals.get("greedy")}
        else:
            found = {f"pass_at_{k}": value for k, value in summary.get("pass_at_k", {}).items()}
            found |= {key: summary.get(key) for key in ("mean", "effective_styles")}
        known = {name: float(value) for name, value in found.items() if value is not None}
        ci95 = {name: intervals[name] for name in known if intervals.get(name) is not None}
        return {
            "name": SCORER,
            "scorer": SCORER,
            "scored_samples": scored,
            "unscored_samples": unscored,
            "params": {},
            "metrics": {n: {"name": n, "value": value, "params": {}} for n, value in known.items()},
            "metadata": {"ci95": ci95},
        }


def _add(log: zipfile.ZipFile, name: str, document: Any) -> None:
    """Every entry has the same date, so the same run gives the same bytes."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    log.writestr(info, json.dumps(document, ensure_ascii=False, allow_nan=False))


def _epoch(row: Mapping[str, Any]) -> int:
    return int(max(row["sample_index"], 0)) + 1


def log_sample(
    problem: Problem | None, row: Mapping[str, Any], *, model: str, uuid: str, acts: bool = False
) -> dict[str, Any]:
    """A sample: one answer to one problem. ``row`` is one of ``samples.parquet``.

    A problem that cannot be graded (BAD_GOLD) has no score: it says nothing about the model.
    """
    asked = _messages(problem)
    said = _turns(row["text"]) if acts else [_assistant(row["text"])]
    answer = next((m for m in reversed(said) if m["role"] == "assistant"), _assistant(""))
    tokens = row["tokens"] or 0  # other tools' answers have no number of them
    scores = {}
    if row["outcome"] != Outcome.BAD_GOLD.value:
        value = "C" if row["outcome"] == Outcome.CORRECT.value else "I"
        why = ": ".join(filter(None, (row["outcome"], row["reason"])))
        scores[SCORER] = {"value": value, "answer": row["text"], "explanation": why}
    return {
        "id": row["problem_id"],
        "epoch": _epoch(row),
        "input": asked,
        "target": target_of(problem),
        "messages": [*asked, *said],
        "output": {
            "model": model,
            "choices": [
                {"message": answer, "stop_reason": "stop" if row["finished"] else "max_tokens"}
            ],
            "completion": row["text"],
            "usage": {"input_tokens": 0, "output_tokens": tokens, "total_tokens": tokens},
        },
        "scores": scores,
        "metadata": {
            **({} if problem is None else dict(problem.answer)),
            **{name: row[name] for name in ("outcome", "reason", "style", "reward")},
        },
        "uuid": uuid,
    }


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the list of samples; texts are cut to 1,000 characters."""
    asked = [{**message, "content": message["content"][:_LONGEST]} for message in sample["input"]]
    return {
        **{name: sample[name] for name in ("id", "epoch", "scores", "uuid")},
        "input": asked,
        "target": sample["target"][:_LONGEST],
        "metadata": {"outcome": sample["metadata"]["outcome"]},
        "completed": True,
        "message_count": len(sample["messages"]),
    }


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

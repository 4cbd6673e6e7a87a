"""A run in a notebook: its numbers and answers as tables, and what it looks like there."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from dph._base.files.rows import Chunk
from dph._base.tables import Frame, data_frame, html_table
from dph.errors import DataError
from dph.records import Outcome
from dph.results.charts.text_table import TableNumber
from dph.results.diagnosis.run_diagnosis import Diagnosis, diagnosis_document
from dph.results.diagnosis.run_diagnosis import diagnose as diagnose_run
from dph.results.read.found_runs import the_run
from dph.results.read.run_results import RunResults, read_set_problems
from dph.results.report.answers import Limits
from dph.results.report.page import write_report
from dph.results.report.report_data import read_report
from dph.results.report.verdicts import verdict_against
from dph.results.vocabulary import metric_title, set_title
from dph.runs.evaluate.comparison import compare as compare_scores
from dph.runs.evaluate.evaluated_runs import counted, default_ks, pass_at_k_band, read_runs
from dph.runs.evaluate.samples_file import GREEDY_INDEX
from dph.runs.stage_costs import RunCost, run_cost

_PASS = "pass_at_"


def load_run(path: str | Path) -> "LoadedRun":
    """The run at ``path``, or the only run in a directory of runs; files are read when asked for.

    Raises:
        DataError: there is no run, or there are several.
    """
    return LoadedRun(RunResults(the_run(Path(path))))


@dataclass(frozen=True)
class LoadedRun:
    """A run directory, or the evaluation of any model. Shows its verdict in a notebook.

    Every table is a pandas DataFrame, or with ``arrow=True`` a pyarrow Table (pandas is not a
    requirement of this package). Numbers are numbers; what is unknown is missing.
    """

    results: RunResults

    @property
    def path(self) -> Path:
        return self.results.path

    @property
    def recipe(self) -> Mapping[str, Any] | None:
        """Its recipe, all keys, as JSON values; None without one."""
        recipe = self.results.recipe
        return None if recipe is None else recipe.model_dump(mode="json")

    @property
    def base(self) -> "LoadedRun | None":
        """The evaluation of what it began with; None where there is none."""
        base = self.results.base
        return None if base is None else LoadedRun(base)

    @property
    def cost(self) -> RunCost:
        """Answers, tokens and seconds of all stages together, and of each in ``cost.stages``.

        Raises:
            DphError: a file is damaged.
        """
        return run_cost(self.path, self.results.recipe)

    def scores(self, *, arrow: bool = False) -> Frame:
        """A row a set and metric, with bootstrap intervals over problems.

        Columns: set, metric (greedy, mean, pass_at_k, keep, explore, cut_off, effective_styles),
        k (of Pass@k), value, lo, hi (fractions; effective_styles is a number), problems, samples.

        Raises:
            DataError: it was not evaluated.
        """
        evaluation = self.results.evaluation
        if evaluation is None:
            raise DataError(f"{self.path} was not evaluated; run `dph evaluate`")
        rows = [
            {"set": name, **row, "problems": of["problems"], "samples": evaluation["samples"]}
            for name, of in evaluation["sets"].items()
            for row in _score_rows(of)
        ]
        return data_frame(pa.Table.from_pylist(rows, schema=_SCORES), arrow=arrow)

    def samples(self, *, arrow: bool = False) -> Frame:
        """Every graded answer: set, problem_id, sample_index (-1 is greedy), text, outcome ...

        Raises:
            DataError: it was not evaluated, or the file is damaged.
        """
        return data_frame(self.results.answers(), arrow=arrow)

    def metrics(self, *, arrow: bool = False) -> Frame:
        """A row a training step, as ``metrics.jsonl`` has them; seconds, tokens, nats."""
        return data_frame(Chunk(self.results.log()).as_table(), arrow=arrow)

    def problems(self, *, arrow: bool = False) -> Frame:
        """A row a problem of every set: prompt, gold and how often the model was right.

        Columns: set, problem_id, prompt (chat messages as JSON), answer (JSON), samples, correct,
        greedy_correct; if the initial policy was evaluated, too, base_correct and change, which is
        what ``dph diagnose`` says became of it.

        Raises:
            DataError: it was not evaluated, or a problem file is malformed.
        """
        found, _ = read_set_problems({self.results: self.results.recipe})
        sets = {} if self._diagnosis is None else self._diagnosis.sets
        changes = {(name, one.problem_id): one for name, of in sets.items() for one in of.problems}
        answers = self.results.answers(texts=False)
        greedy = answers.filter(pc.field("sample_index") == GREEDY_INDEX).to_pylist()
        right = {(r["set"], r["problem_id"]): r["outcome"] == Outcome.CORRECT for r in greedy}
        rows = []
        for key, counts in counted(answers).items():
            problem, change = found.get(key[0], {}).get(key[1]), changes.get(key)
            rows.append(
                {
                    "set": key[0],
                    "problem_id": key[1],
                    "prompt": None if problem is None else _text(problem.prompt),
                    "answer": None if problem is None else json.dumps(dict(problem.answer)),
                    "samples": counts.samples,
                    "correct": counts.correct,
                    "greedy_correct": right.get(key),
                    "base_correct": change and change.baseline_correct,
                    "change": change and change.change.value,
                }
            )
        return data_frame(pa.Table.from_pylist(rows, schema=_PROBLEMS), arrow=arrow)

    @cached_property
    def _diagnosis(self) -> Diagnosis | None:
        """Against its initial policy; None where that was not evaluated."""
        return None if self.results.base is None else diagnose_run(self.path)

    def verdict(self) -> str:
        """One sentence: what it gained and lost against its initial policy, with intervals.

        Raises:
            DataError: there is no evaluation of the two to compare.
        """
        base = self.results.base
        if base is None:
            raise DataError(self.results.why_alone or f"{self.path} is an initial policy")
        scores = read_runs([base.path, self.path], ())
        first, mine = scores.values()
        rows = compare_scores(scores, None, default_ks(scores), seed=0)
        return verdict_against(
            (self.path.name, base.path.name),
            [row for row in rows if row.run == str(self.path)],
            {name: pass_at_k_band(mine[name], of, seed=0) for name, of in first.items()},
            (self.results.evaluation, base.evaluation),
            diagnosis_document(cast(Diagnosis, self._diagnosis))["sets"],
        ).sentence()

    def _repr_html_(self) -> str:
        said = self.results.why_alone
        heading = f"<p><strong>{escape(self.verdict() if said is None else said)}</strong></p>"
        if self.results.evaluation is None:
            return heading
        rows = cast(pa.Table, self.scores(arrow=True)).to_pylist()
        metrics = list(dict.fromkeys((row["metric"], row["k"]) for row in rows))
        by_set: dict[str, dict[tuple[str, int | None], str]] = {}
        for row in rows:
            scale = 1 if row["metric"] == "effective_styles" else 100
            value, low, high = (row[n] and scale * row[n] for n in ("value", "lo", "hi"))
            number = TableNumber(value=value, low=low, high=high)
            by_set.setdefault(row["set"], {})[row["metric"], row["k"]] = str(number)
        head = ("set", *(metric_title(m if k is None else f"{_PASS}{k}") for m, k in metrics))
        cells = (
            (set_title(name), *(of.get(one, "") for one in metrics)) for name, of in by_set.items()
        )
        return heading + html_table(head, cells)


def report(
    *runs: str | Path,
    out: str | Path = "report.html",
    title: str = "dph report",
    longest: int = 50_000,
    most_answers: int | None = None,
    seed: int = 0,
) -> Path:
    """Write runs and all their answers as one HTML file, and return its path.

    Args:
        runs: run directories, or directories of runs.
        out: the file, which appears whole.
        title: of the page.
        longest: keep this many characters of a text.
        most_answers: keep this many of a run's most frequent answers to a problem; default: all.
        seed: of the intervals.

    Raises:
        DataError: there is no run, a file is damaged, or runs were evaluated on other problems.
        SettingsError: a limit is below 1.
    """
    if not runs:
        raise DataError("name at least one run for a report")
    data = read_report(runs, seed=seed)
    limits = Limits(longest=longest, most=most_answers)
    return write_report(data, out, limits=limits, title=title).path


_SCORES = pa.schema(
    {
        **{name: pa.string() for name in ("set", "metric")},
        "k": pa.int64(),
        **{name: pa.float64() for name in ("value", "lo", "hi")},
        **{name: pa.int64() for name in ("problems", "samples")},
    }
)
_PROBLEMS = pa.schema(
    {
        **{name: pa.string() for name in ("set", "problem_id", "prompt", "answer")},
        **{name: pa.int64() for name in ("samples", "correct")},
        "greedy_correct": pa.bool_(),
        "base_correct": pa.int64(),
        "change": pa.string(),
    }
)


def _score_rows(of: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    passes = {f"{_PASS}{k}": value for k, value in of["pass_at_k"].items()}
    for name in ("greedy", "mean", *passes, "keep", "explore", "cut_off", "effective_styles"):
        value, is_pass = passes.get(name, of.get(name)), name in passes
        if value is None:
            continue
        lo, hi = of["ci95"].get(name, (None, None))
        yield {
            "metric": "pass_at_k" if is_pass else name,
            "k": int(name.removeprefix(_PASS)) if is_pass else None,
            "value": float(value),
            "lo": lo,
            "hi": hi,
        }


def _text(prompt: str | Sequence[Mapping[str, str]]) -> str:
    return prompt if isinstance(prompt, str) else json.dumps(list(map(dict, prompt)))

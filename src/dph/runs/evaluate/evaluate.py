"""Drawing and grading the samples of an evaluation, so that a kill costs one chunk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph._base.files import make_directory
from dph._base.files.parts import TableParts
from dph._base.import_path import code_fingerprint
from dph.errors import DataError, SettingsError
from dph.model.sampler.episodes import AnswerSampler
from dph.recipe import recipe_digest
from dph.records import Problem
from dph.runs.evaluate.samples_file import (
    SAMPLES,
    read_samples,
    samples_digest,
    samples_table,
    write_samples,
)
from dph.tasks.problems import problems_fingerprint
from dph.tasks.verifiers.base import verifier_identity

CHUNK = 64
"""Problems between two points at which a killed evaluation can go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """A named set of problems, and how its answers are drawn and graded."""

    name: str
    problems: tuple[Problem, ...]
    draw: AnswerSampler

    def __post_init__(self) -> None:
        if not self.problems:
            raise DataError(f"the evaluation set {self.name!r} has no problems")
        seen: set[str] = set()
        for problem in self.problems:
            if problem.problem_id in seen:
                raise DataError(f"set {self.name!r} has two problems {problem.problem_id!r}")
            seen.add(problem.problem_id)


def evaluate(
    path: Path,
    sets: Sequence[EvaluationSet],
    *,
    model: str,
    samples: int,
    seed: int,
    greedy: bool = True,
    on_progress: Callable[[int], None] | None = None,
) -> pa.Table:
    """Draw and grade ``samples`` answers to every problem of every set; write them to ``path``.

    ``model`` is the fingerprint of the weights, the tokenizer and the precision. Everything that
    the samples depend on makes a digest. A file at ``path`` with that digest is returned as it
    is; finished chunks next to it, in ``<stem>.partial/``, are used if they have that digest and
    removed if not. A sample's random numbers depend on (seed, problem, sample index) alone, so an
    interrupted evaluation ends with the same file as an uninterrupted one.

    ``on_progress`` is called with the number of answers finished since the last call, of
    ``total_answers`` in all.
    """
    _require_valid(sets, samples)
    digest = _digest(sets, model=model, samples=samples, seed=seed, greedy=greedy)
    if samples_digest(path) == digest:
        table = read_samples(path)
        _report(on_progress, table.num_rows)
        return table
    make_directory(path.parent)
    parts = TableParts(path.with_name(f"{path.stem}.partial"), digest=digest)
    tables = []
    for index, chunk in enumerate(chunks(sets)):
        table = parts.read(index)
        if table is None:
            table = evaluate_set(
                chunk, samples=samples, seed=seed, greedy=greedy, on_progress=on_progress
            )
            parts.write(index, table)
        else:
            _report(on_progress, table.num_rows)
        tables.append(table)
    whole = pa.concat_tables(tables) if tables else SAMPLES.empty_table()
    write_samples(path, whole, digest=digest)
    parts.remove()
    return whole


def evaluate_set(
    chosen: EvaluationSet,
    *,
    samples: int,
    seed: int,
    greedy: bool = True,
    on_progress: Callable[[int], None] | None = None,
) -> pa.Table:
    """The samples table of one set: for each problem the greedy answer, then the samples."""
    draw, problems, name = chosen.draw.counted_together(), chosen.problems, chosen.name
    drawn = draw(problems, samples=samples, seed=seed, on_progress=on_progress)
    if not greedy:
        return samples_table(name, drawn.groups)
    likeliest = replace(draw, parameters=replace(draw.parameters, greedy=True))
    first = likeliest(problems, samples=1, seed=seed, on_progress=on_progress)
    return pa.concat_tables(
        table
        for answer, group in zip(first.groups, drawn.groups, strict=True)
        for table in (samples_table(name, [answer], greedy=True), samples_table(name, [group]))
    ).combine_chunks()


def total_answers(sets: Sequence[EvaluationSet], *, samples: int, greedy: bool = True) -> int:
    """Number of answers that ``evaluate`` draws: the total of a progress bar."""
    return sum(len(chosen.problems) for chosen in sets) * (samples + int(greedy))


def chunks(sets: Sequence[EvaluationSet]) -> Iterator[EvaluationSet]:
    """The sets in pieces of at most ``CHUNK`` problems."""
    for chosen in sets:
        for start in range(0, len(chosen.problems), CHUNK):
            yield replace(chosen, problems=chosen.problems[start : start + CHUNK])


def _digest(sets: Sequence[EvaluationSet], **rest: str | int | bool) -> str:
    described: list[Mapping[str, Any]] = [
        {
            "name": chosen.name,
            "problems": problems_fingerprint(chosen.problems),
            "verifier": verifier_identity(chosen.draw.graded_by),
            "style": style_name(chosen.draw.style),
            "parameters": chosen.draw.limits,
            "prompts": [chosen.draw.encode(problem) for problem in chosen.problems],
        }
        for chosen in sets
    ]
    columns = {field.name: str(field.type) for field in SAMPLES}
    return recipe_digest({"sets": described, "columns": columns, "chunk": CHUNK, **rest})


def style_name(style: Callable[[str], str | None] | None) -> str | None:
    """Name of a style classifier in digests: a user-defined one with its code."""
    if style is None:
        return None
    kind = type(style)
    module = getattr(style, "__module__", kind.__module__)
    name = f"{module}:{getattr(style, '__qualname__', kind.__qualname__)}"
    own = module.partition(".")[0] == "dph"  # a user's may change while its name does not
    return name if own else f"{name} {code_fingerprint(style)}"


def _require_valid(sets: Sequence[EvaluationSet], samples: int) -> None:
    if samples < 1:
        raise SettingsError(f"samples must be at least 1, got {samples}")
    names = [chosen.name for chosen in sets]
    if len(set(names)) < len(names):
        raise SettingsError(f"evaluation sets need different names, got {', '.join(names)}")


def _report(on_progress: Callable[[int], None] | None, amount: int) -> None:
    if on_progress:
        on_progress(amount)

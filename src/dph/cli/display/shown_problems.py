"""Problems and their answers: as text for people and as JSON."""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dph.cli.display.output import plain_text
from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.results.charts.text_table import shortened, visible
from dph.results.diagnosis.changes import Change, problem_verdicts
from dph.results.read.run_results import RunResults
from dph.results.vocabulary import run_labels
from dph.runs.evaluate.evaluated_runs import (
    AnswerGroup,
    CorrectCount,
    Key,
    ShownProblem,
    counted,
    require_problem,
    shown_problems,
    with_outcome,
)
from dph.tasks.problems import prompt_text

if TYPE_CHECKING:
    from rich.console import RenderableType


def show_text(text: str, *, height: int, pager: bool = True) -> None:
    """Print ``text``, through a pager where it is longer than a screen of ``height`` lines.

    There is no pager unless stdin and stdout are terminals that can move their cursor: nobody
    could leave it.
    """
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    can_type = terminals and os.environ.get("TERM", "dumb") != "dumb"
    command = pager_command() if pager and can_type else None
    if text.count("\n") < height or command is None or not _paged(text, command):
        sys.stdout.write(text)
        sys.stdout.flush()


def pager_command() -> list[str] | None:
    """The words of ``$PAGER``, or ``less``; None for an empty one, ``cat`` and unknown commands.

    less always has ``-FRX``, whatever else it is given: it ends at once if the text fits the
    screen, leaves colours unchanged, and leaves the text on the screen.
    """
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # a quotation mark without its other one
        return None
    if not words or words == ["cat"]:
        return None
    return [*words, "-FRX"] if Path(words[0]).name == "less" else words


def _paged(text: str, command: list[str]) -> bool:
    """True if the pager could be started; it is waited for."""
    program = shutil.which(command[0])
    if program is None:
        return False
    try:
        process = subprocess.Popen([program, *command[1:]], stdin=subprocess.PIPE)
    except OSError:  # no program of this machine
        return False
    with contextlib.suppress(BrokenPipeError):  # it was left before the end
        process.communicate(text.encode("utf-8", "backslashreplace"))
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:  # Ctrl-C is the pager's, which goes on
            continue
        return True


_PROMPT, _ANSWER, _REASON = 1500, 600, 200
"""Characters of each that are shown unless all of them are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemChoice:
    """Choice of problems, and of how much is shown; an option that is not given does not choose."""

    lost: bool = False
    gained: bool = False
    problems: tuple[str, ...] = ()
    outcome: Outcome | None = None
    set_name: str | None = None
    limit: int
    answers: int | None
    """Groups of answers a problem; None: all."""
    full: bool

    def __post_init__(self) -> None:
        if self.lost and self.gained:
            raise SettingsError("no problem is both lost and gained: give --lost or --gained")

    @property
    def change(self) -> Change | None:
        return Change.LOST if self.lost else Change.GAINED if self.gained else None

    @property
    def text(self) -> str:
        said = {
            Change.LOST: "lost (right less often than two draws of one model would show)",
            Change.GAINED: "gained (right more often than two draws of one model would show)",
        }.get(self.change or Change.KEPT, "problems")
        outcome = f", with answers that are {self.outcome.value}" if self.outcome else ""
        place = f", in {self.set_name}" if self.set_name else ""
        return f"{said}{outcome}{place}"

    def cut(self, text: str, characters: int) -> str:
        """A text as a terminal may show it, at most this long unless ``full``."""
        return visible(text if self.full else shortened(text, characters=characters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProblems:
    """The first problems that fit a choice, of ``of``, with the answers of ``runs``."""

    runs: Sequence[Path]
    problems: Sequence[ShownProblem]
    of: int
    choice: ProblemChoice

    def answers_of(self, problem: ShownProblem) -> Sequence[AnswerGroup]:
        return problem.answers[: self.choice.answers]


def shown_json(shown: ShownProblems) -> dict[str, Any]:
    """For machines: nothing is cut but the number of problems and of groups of answers."""
    paths, problems = [str(path) for path in shown.runs], []
    for one in shown.problems:
        answers = [
            {
                "text": group.text,
                "outcome": group.outcome.value,
                "reward": group.reward,
                "reason": group.reason,
                "style": group.style,
                "counts": dict(zip(paths, group.counts, strict=True)),
                "greedy": [p for p, first in zip(paths, group.greedy, strict=True) if first],
            }
            for group in shown.answers_of(one)
        ]
        known, scores = one.problem, zip(paths, map(asdict, one.scores), strict=True)
        problems.append(
            {
                "set": one.set_name,
                "problem_id": one.problem_id,
                "prompt": known and known.prompt,
                "gold": known and dict(known.answer),
                "scores": dict(scores),
                "base": one.base and asdict(one.base),
                "different_answers": len(one.answers),
                "answers": answers,
            }
        )
    return {
        "schema": 1,
        "runs": paths,
        "chosen": shown.choice.text,
        "problems_chosen": shown.of,
        "problems_shown": len(shown.problems),
        "problems": problems,
    }


def print_shown(shown: ShownProblems, *, pager: bool = True) -> None:
    """Print for people; ``pager``: through one if a terminal is too short."""
    from rich.console import Console

    parts = _parts(shown)
    if not sys.stdout.isatty():
        sys.stdout.write(plain_text(*parts, width=100) + "\n")
        return
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    show_text(captured.get(), height=console.height, pager=pager)


def _parts(shown: ShownProblems) -> "list[RenderableType]":
    from rich.rule import Rule
    from rich.text import Text

    names = run_labels(shown.runs)
    labels = [names[str(path)] for path in shown.runs]
    parts: list[RenderableType] = [
        Text(f"{shown.choice.text}: {len(shown.problems)} of {shown.of} problems shown")
    ]
    for problem in shown.problems:
        named = zip(labels, problem.scores, strict=True)
        said = []
        for label, of in [("base", problem.base), *named] if problem.base else named:
            right = f"{'?' if of.correct is None else of.correct}/{of.samples}"
            said.append(f"{label} {right if of.samples else 'not evaluated'}")
        parts += [
            Rule(Text(visible(f"{problem.set_name} / {problem.problem_id}"), style="bold")),
            Text(f"correct: {', '.join(said)}"),
        ]
        if (known := problem.problem) is None:
            text = "prompt and gold are unknown: no file of problems is here"
            parts.append(Text(text, style="dim"))
        else:
            prompt = shown.choice.cut(prompt_text(known), _PROMPT)
            parts += [Text("prompt", style="dim"), Text(prompt)]
            for name, value in known.answer.items():
                told = shown.choice.cut(str(value), _PROMPT)
                parts.append(Text.assemble((f"{visible(name)}: ", "dim"), told))
        parts += _answers(shown.answers_of(problem), labels, shown.choice)
        if left := len(problem.answers) - len(shown.answers_of(problem)):
            parts.append(Text(f"and {left} more different answers (--answers)", style="dim"))
    return parts


def _answers(
    groups: Sequence[AnswerGroup], labels: Sequence[str], choice: ProblemChoice
) -> "Iterator[RenderableType]":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for label in labels:
        table.add_column(label, justify="right", overflow="fold")
    styled = any(group.style for group in groups)
    for title in ("outcome", *(["style"] if styled else []), "answer"):
        table.add_column(title, no_wrap=title == "outcome", overflow="fold")  # rich cuts words off
    for group in groups:
        answer = Text(choice.cut(group.text, _ANSWER))
        if group.reason:
            answer.append(f"\n{choice.cut(group.reason, _REASON)}", style="dim")
        counts = zip(group.counts, group.greedy, strict=True)
        numbers = [f"{count}{'*' * greedy}" for count, greedy in counts]
        style = [Text(visible(group.style or "-"))] if styled else []
        table.add_row(*numbers, group.outcome.value, *style, answer)
    yield table
    if any(any(group.greedy) for group in groups):
        yield Text("* the greedy answer, which is not counted", style="dim")


def chosen_problems(runs: Sequence[Path], choice: ProblemChoice) -> ShownProblems:
    """The problems of the first run that fit ``choice``, with the answers of all ``runs``.

    Lost and gained are those that ``dph diagnose`` says of the first run against the policy that
    it began with, the clearest first; no other choice changes which they are.
    """
    tables = [RunResults(run).answers() for run in runs]
    keys = _fitting(tables, choice)
    results = RunResults(runs[0])
    if results.is_foreign and len(runs) > 1:
        results = replace(results, beside=runs[1])
    if choice.change is not None:
        verdicts = problem_verdicts(results.path, results.initial.required().path)
        keys = [key for key in keys if key in verdicts and verdicts[key].change is choice.change]
        keys.sort(key=lambda key: min(verdicts[key].p_lost, verdicts[key].p_gained))
    some = keys[: choice.limit]
    kept = (RunResults(run).kept_problems() for run in runs)
    problems = next((found for found in kept if all(key in found for key in some)), {})
    base: Mapping[Key, CorrectCount] = {}
    policy = results.initial.results
    if policy is not None and policy.path.resolve() not in [run.resolve() for run in runs[1:]]:
        base = counted(policy.answers())
    shown = shown_problems(some, tables, problems, base=base, outcome=choice.outcome)
    return ShownProblems(runs=runs, problems=shown, of=len(keys), choice=choice)


def drawn_problems(run: Path, step: int | None, choice: ProblemChoice) -> ShownProblems:
    """The problems that fit ``choice`` of a run's pool or a step, with the answers to them."""
    results = RunResults(run)
    table, problems = results.pool_answers() if step is None else results.step_answers(step)
    keys = _fitting([table], choice)
    shown = shown_problems(keys[: choice.limit], [table], problems, base={}, outcome=choice.outcome)
    return ShownProblems(runs=[run], problems=shown, of=len(keys), choice=choice)


def _fitting(tables: Sequence[pa.Table], choice: ProblemChoice) -> list[Key]:
    known = list(counted(tables[0]))
    keys = [key for key in known if choice.set_name in (None, key[0])]
    if not keys:
        sets = ", ".join(dict.fromkeys(key[0] for key in known))
        raise DataError(f"there is no set {choice.set_name!r}; the evaluated sets are {sets}")
    if choice.problems:
        keys = [key for name in choice.problems for key in require_problem(name, keys)]
    if choice.outcome is not None:
        having = with_outcome(tables, choice.outcome)
        keys = [key for key in keys if key in having]
    return keys

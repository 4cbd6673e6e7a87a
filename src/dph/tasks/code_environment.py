"""The environment ``code``: run a program, or its visible tests, then submit one.

Its tools are ``run(program, stdin)``, ``check(program)`` and ``submit(program)``. Programs run as
the verifier ``code`` runs them, in processes that the kernel confines. The tests that decide never
reach the process of a trajectory; those of the column ``visible`` do, as the prompt shows them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dph._processes.sandbox.supervisor import ProcessLimits, ScriptEnd, StepLimits
from dph.tasks.environments import Environment, EpisodeLimits
from dph.tasks.verifiers.code.handler import CodeGrader, make_code_grader
from dph.tasks.verifiers.code.task import CodeTask, parse_task

VISIBLE = "visible"
"""The column of tests that a problem shows: an object with ``tests`` or ``cases``."""
_HIDDEN = ("tests", "cases", "same_as", "inputs")
_EACH, _IN_ALL = 0.5, 0.8
"""Shares of the time of a call for one test, and for all of them."""
_SHOWN_CHARACTERS = 2000


class CodeTools:
    """The class of the environment; ``code_environment`` makes it ready."""

    def reset(
        self, seconds: float, visible: Mapping[str, Any] | str | None = None, **task: Any
    ) -> None:
        """Open a trajectory; ``seconds`` is the time limit of a call."""
        self._limits = StepLimits(each=_EACH * seconds, in_all=_IN_ALL * seconds)
        names: dict[str, Any] = {
            name: task[name] for name in ("entry_point", "setup", "prefix") if name in task
        }
        self._visible: CodeTask | None = None
        if visible:  # as text in parquet and CSV files
            shown = json.loads(visible) if isinstance(visible, str) else visible
            self._visible = parse_task({**names, **shown}, "the visible tests")
        self._prefix = str(names.get("prefix", ""))
        self._made: CodeGrader | None = None

    @property
    def _grader(self) -> CodeGrader:
        if self._made is None:  # when it is asked for: many answers run nothing
            options = {"limits": asdict(ProcessLimits()), "without": [], "steps": self._limits}
            self._made = make_code_grader(options)
        return self._made

    def run(self, program: str, stdin: str = "") -> str:
        """Run a Python program and show what it prints.

        Args:
            program: The whole program.
            stdin: Its standard input.
        """
        return _shown(self._grader.run(f"{self._prefix}{program}", stdin))

    def check(self, program: str) -> str:
        """Run the tests that the task shows on a Python program.

        Args:
            program: The whole program.
        """
        if self._visible is None:
            raise ValueError("this task shows no tests: use run")
        request = {"program": program, "task": asdict(self._visible)}
        outcome, _, reason = self._grader(request, lambda *_: None)
        return f"{outcome}: {reason}" if reason else "all visible tests pass"

    def submit(self, program: str) -> str:
        """Give the program that solves the task; nothing can be run afterwards.

        Args:
            program: The whole program.
        """
        return program


def _shown(ended: ScriptEnd) -> str:
    printed = ended.output.decode("utf-8", "replace")[:_SHOWN_CHARACTERS]
    if ended.over_output:
        raise ValueError("it printed too much")
    if ended.code is None or ended.code < 0:
        raise ValueError(f"it was ended after {ended.seconds:.1f} s")
    said = ended.errors[-_SHOWN_CHARACTERS:]
    return f"{printed}\n{said}".strip("\n") if ended.code else printed


def code_environment(
    *, form: str = "json", limits: EpisodeLimits | None = None, hidden: Sequence[str] = ()
) -> Environment:
    """The environment ``code`` for problems of ``dph tasks``.

    Trajectories are graded by ``make_verifier("code")``. The arguments are those of
    ``Environment``: ``seconds`` of a call are those of its programs, too, and tests that decide
    are always hidden.
    """
    limits = limits or EpisodeLimits()
    return Environment(
        CodeTools,
        form=form,
        limits=limits,
        submits="submit",
        hidden=[*_HIDDEN, *hidden],
        columns={"seconds": limits.seconds},
    )

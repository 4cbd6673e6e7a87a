"""An environment: a class that a user names, and one killable process for each trajectory.

The class is TRL's contract (``environment_factory``): ``reset(**columns) -> str | None`` begins a
trajectory, public methods with types and a Google-style docstring are tools, and ``get_reward() ->
float`` says what the end is worth. Methods may be asynchronous. In addition to that contract, a
``get_reward`` with the argument ``messages`` gets the conversation.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.closing import Closing
from dph._base.import_path import (
    import_path_of,
    require_one_module,
    source_file,
    source_fingerprint,
)
from dph._base.randomness import derived_seed
from dph._processes.workers.process import ReplyKind, WorkerProcess, encode, worker_zygote
from dph.errors import DataError, SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.environments.calls import FORMS, BadCall, ToolCall, clean, fault_of, with_names
from dph.tasks.verifiers.base import Verifier, verifier_identity

_HANDLER = "dph.tasks.environments.child:make_instance"
_SEEDS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLimits:
    """Limits of one trajectory.

    Attributes:
        turns: answers of the policy; one that still calls a tool after the last is CUT_OFF.
        calls: calls of tools in one turn; more are told as an error.
        errors: calls that may fail (a wrong name, wrong types, no JSON, a tool that raised) and are
            told to the policy. One more ends the trajectory as INVALID.
        seconds: time of ``reset``, of a call and of ``get_reward``, each; above it, TIMED_OUT. A
            trajectory that ``reset`` could not begin is CRASHED, whatever the limit.
        result_characters: of a result; the rest is cut, and the policy reads how much.
        most_characters: of a result; above it, OVER_LIMIT.
        memory_bytes: memory that the class may take; above it, OVER_LIMIT.

    Raises:
        SettingsError: a limit is out of range.
    """

    turns: int = 8
    calls: int = 8
    errors: int = 8
    seconds: float = 5.0
    result_characters: int = 4000
    most_characters: int = 10_000_000
    memory_bytes: int = 1_000_000_000

    def __post_init__(self) -> None:
        least = {"turns": 1, "calls": 1, "errors": 0, "result_characters": 1}
        least |= {"most_characters": self.result_characters, "memory_bytes": 1_000_000}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise SettingsError(f"{name} must be at least {bound}, got {getattr(self, name)}")
        if not 0 < self.seconds < 1e6:
            raise SettingsError(f"seconds must lie in (0, 1e6), got {self.seconds}")


class Environment(Closing):
    """A class for trajectories, found by its import path and run in separate processes.

    Args:
        path: ``module:Class``, or the class itself (of a module: other processes import it).
        directories: where the module is looked for first; without any, the current directory is
            searched, too.
        form: how the policy writes calls, a key of ``FORMS``.
        limits: of each trajectory.
        submits: the tool whose call ends a trajectory and whose only argument is its answer. By
            default the answer is the text of the turn that calls no tool.
        hidden: columns of a problem that ``reset`` does not get, such as the gold answer that a
            verifier compares with: the process of the class never sees them.
        columns: columns that every ``reset`` gets next to those of its problem; JSON.
        places: those of ``columns`` that are paths: they are not in ``settings``,
            so that what was made does not depend on it.
        source: module whose file decides the version, where it is not that of the class.
        start_seconds: time that a process may take to import the module.

    Attributes:
        name: the import path.
        version: changes with the file that holds the class, but not with what that file imports.
        tools: schemas of the tools, as chat templates take them.
        rewards: whether the class has ``get_reward``.
        reads_messages: whether that takes the conversation.

    Raises:
        SettingsError: another process cannot import the class, it has no ``reset``, or a tool lacks
            types or descriptions.
    """

    def __init__(
        self,
        path: str | type,
        *,
        directories: Sequence[Path] = (),
        form: str = "json",
        limits: EpisodeLimits | None = None,
        submits: str = "",
        hidden: Sequence[str] = (),
        columns: Mapping[str, Any] = MappingProxyType({}),
        places: Sequence[str] = (),
        source: str = "",
        start_seconds: float = 120.0,
    ) -> None:
        if form not in FORMS:
            raise SettingsError(f"calls are written as {', '.join(FORMS)}, got {form!r}")
        self.name = path if isinstance(path, str) else import_path_of(path)
        self.limits = limits or EpisodeLimits()
        self.form, self.submits, self.hidden = form, submits, tuple(hidden)
        self.columns, self._places = dict(columns), frozenset(places)
        require_one_module(self.name, directories)
        module = source or self.name.partition(":")[0]
        self.source = source_file(module, directories)
        self.version = f"3 {source_fingerprint(module, directories)}".rstrip()
        self._start_seconds, self.directories = start_seconds, tuple(directories)
        searched = [str(directory.resolve()) for directory in directories]
        self._options = {"path": self.name, "directories": searched, **asdict(self.limits)}
        self._zygote = worker_zygote(_HANDLER, self._options, seconds=start_seconds)
        try:
            self.tools, self.rewards, self.reads_messages = self._described()
        except BaseException:
            self.close()
            raise
        self.by_name = {tool["function"]["name"]: tool for tool in self.tools}
        if submits and submits not in self.by_name:
            self.close()
            known = ", ".join(self.by_name)
            raise SettingsError(f"no tool is named {submits!r}; there are {known}")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Inputs other than the class that decide what comes of a trajectory, as JSON."""
        own: dict[str, Any] = {"form": self.form, "submits": self.submits}
        columns = {key: self.columns[key] for key in self.columns if key not in self._places}
        own |= {"hidden": list(self.hidden), "columns": columns}
        return {"source": self.source.name if self.source else "", **own, **asdict(self.limits)}

    def begin(self, problem: Problem, *, seed: int = 0, member: int = 0) -> "Episode":
        """Begin a trajectory; close it when it is over.

        Args:
            problem: its ``answer`` holds the columns of ``reset``, and ``prompt`` is one of them.
            seed: with the problem's id it seeds ``random`` (and numpy, where it is loaded) before
                the instance is made: all members of a group begin alike.
            member: number in the group; afterwards each draws different numbers.

        Raises:
            DataError: a column is not JSON, or it is one that the environment sets.
            VerifierError: no process can be started.
        """
        prompt = problem.prompt
        text = prompt if isinstance(prompt, str) else [dict(message) for message in prompt]
        if twice := [name for name in self.columns if name in problem.answer]:
            raise DataError(
                f"problem {problem.problem_id!r} has the column {twice[0]!r}, which the "
                f"environment {self.name!r} sets for all problems"
            )
        columns = {"prompt": text, **self.columns, **problem.answer}
        columns = {name: value for name, value in columns.items() if name not in self.hidden}
        key = derived_seed(seed, "environment", problem.problem_id) % _SEEDS
        try:
            request = encode(["reset", columns, key, member])
        except (TypeError, ValueError) as error:
            raise DataError(
                f"problem {problem.problem_id!r}: the columns of reset are JSON, {error}"
            ) from error
        return Episode(self, self._worker(), request)

    def close(self) -> None:
        """End the process that others are forked from. Closing twice is harmless."""
        if self._zygote is not None:
            self._zygote.close()

    def _worker(self) -> WorkerProcess:
        try:
            worker = WorkerProcess(
                _HANDLER,
                self._options,
                seconds=self.limits.seconds,
                start_seconds=self._start_seconds,
                zygote=self._zygote,
                retires=False,
            )
        except OSError as error:
            raise VerifierError(f"no process of {self.name!r} can be started: {error}") from error
        if reason := worker.start():
            ending = worker.kill_and_wait()
            raise VerifierError(f"no process of {self.name!r} can be started: {reason} ({ending})")
        return worker

    def _described(self) -> tuple[list[dict[str, Any]], bool, bool]:
        try:
            worker = self._worker()
        except VerifierError as error:
            raise SettingsError(f"the environment {self.name!r} cannot be used: {error}") from error
        try:
            reply = worker.exchange([encode(["describe"])])[0]
        finally:
            ending = worker.kill_and_wait()
        if reply.kind is not ReplyKind.OK:
            reason = reply.reason or f"its process died ({ending})"
            raise SettingsError(f"the environment {self.name!r} cannot be used: {reason}")
        _, schemas, rewards, reads_messages = reply.value
        return schemas, rewards, reads_messages


class EnvironmentVerifier(Closing):
    """Worth of trajectories as a ``Verifier``: an environment, and a verifier of its answers.

    Its identity names both, so every artefact that names its verifier depends on the class, its
    limits and its settings, too.

    Args:
        environment: where trajectories act.
        verifier: grades the answer where the class has no ``get_reward``.

    Raises:
        SettingsError: nothing says what a trajectory is worth, or both would.
    """

    def __init__(self, environment: Environment, verifier: Verifier | None) -> None:
        name = environment.name
        if verifier is None and not environment.rewards:
            raise SettingsError(
                f"the class {name!r} has no method 'get_reward' and there is no verifier: nothing "
                "says what a trajectory is worth"
            )
        if verifier is not None and environment.rewards:
            raise SettingsError(
                f"the class {name!r} has 'get_reward', and there is a verifier, too: which of them "
                "says what a trajectory is worth? Leave one out"
            )
        self.environment, self.verifier = environment, verifier
        self.source = environment.source
        self.name = name if verifier is None else f"{name} {verifier.name}"
        own = environment.version
        self.version = own if verifier is None else f"{own}, {verifier.version}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the environment, and of the verifier if there is one."""
        graded = {} if self.verifier is None else verifier_identity(self.verifier)["settings"]
        own = self.environment.settings
        return {**{f"environment.{key}": value for key, value in own.items()}, **graded}

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """Refuse: a trajectory is graded where it acts, and a text does not tell what it did.

        Raises:
            SettingsError: always.
        """
        del problems, responses
        raise SettingsError(
            f"[environment] {self.environment.name!r}: trajectories are graded while they act; "
            "texts of their answers cannot be graded again"
        )

    def close(self) -> None:
        """End the processes of both."""
        self.environment.close()
        if self.verifier is not None:
            self.verifier.close()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of one call, as the policy reads it; ``failed`` where it is an error."""

    tool: str
    text: str
    failed: bool = False

    @classmethod
    def of_error(cls, tool: str, reason: str) -> "ToolResult":
        """An error as TRL tells it."""
        return cls(tool, str({"error": reason}), failed=True)

    @property
    def is_error(self) -> bool:
        """True if the text is that of an error; a tool may say the like itself."""
        return self.failed or self.text.startswith("{'error': ")


class Episode(Closing):
    """One trajectory: a process that holds an instance, from ``reset`` to the reward.

    Attributes:
        said: what ``reset`` returned, '' for None.
        ending: how it ended before its end, None while it has not: a hang, a crash, a limit.
        answer: the text that a verifier grades, once ``step`` returned no results.
        calls: number of calls of each tool, bad calls under ''.
        failures: number of calls that failed.
        turns: turns of the policy so far.
        order: names of the tools in the order of their calls.
        messages: turns and results: ``role``, ``content``, and ``calls``, or a tool's ``name`` and
            ``call``, its number among those of the turn, None for what was no call.
    """

    def __init__(self, environment: Environment, worker: WorkerProcess, reset: bytes) -> None:
        self._environment, self._worker = environment, worker
        self._open, self._submitted = True, False
        self.ending: Verdict | None = None
        self.said = self.answer = ""
        self.calls: Counter[str] = Counter()
        self.order: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.turns = self.failures = 0
        answer = self._ask(reset, "reset")
        if answer is not None:
            self.said = answer[1]
        elif self.ending is not None:  # before the policy did anything, whatever it was
            self.ending = replace(self.ending, outcome=Outcome.CRASHED)

    def step(self, text: str) -> list[ToolResult]:
        """Take in a turn of the policy: run the tools that it calls.

        Returns:
            Results, in the order of the calls; none where the trajectory is over: its turn called
            no tool, or something ended it (``ending``).
        """
        return self.take(text, FORMS[self._environment.form](text))

    def take(self, text: str, calls: Sequence[ToolCall | BadCall]) -> list[ToolResult]:
        """As ``step``, for calls that somebody else found in the turn or next to it."""
        if self.ending is not None or self._submitted:
            return []
        self.turns += 1
        limits = self._environment.limits
        calls = [with_names(call, self._environment.by_name) for call in calls]
        good = [[c.name, dict(c.arguments)] for c in calls if isinstance(c, ToolCall)]
        self.messages.append({"role": "assistant", "content": text, "calls": good})
        if not calls:
            self.answer = text
            return []
        results: list[ToolResult] = []
        numbers = iter(range(len(good)))
        for call in calls[: limits.calls + 1]:
            if len(results) == limits.calls:
                result = self._failure("", f"at most {limits.calls} calls may stand in one turn")
            else:
                result = self._run(call)
            if self.ending is not None or self._submitted:
                return []
            results.append(result)
            number = next(numbers) if isinstance(call, ToolCall) else None
            told = {"role": "tool", "name": result.tool, "content": result.text, "call": number}
            self.messages.append(told)
        if self.turns >= limits.turns:
            self._end(Outcome.CUT_OFF, f"cut off after {limits.turns} turns")
            return []
        return results

    def call(self, call: ToolCall | BadCall) -> ToolResult:
        """One call, for an engine that counts turns itself; an error once it is over."""
        if self.ending is None and not self._submitted:
            result = self._run(call)
            if self.ending is None:
                return result
        why = self.ending.reason if self.ending else "the answer was given"
        return ToolResult.of_error("", f"the trajectory is over: {why}")

    def cut_off(self, reason: str) -> None:
        """End it: the policy's turn was cut off, or there is no room for another."""
        if self.ending is None and not self._submitted:
            self._end(Outcome.CUT_OFF, reason)

    def verdict(self, grade: Callable[[str], Verdict] | None = None) -> Verdict:
        """Worth of the end; ``grade`` takes the answer where the class has no ``get_reward``.

        Raises:
            SettingsError: the class has no ``get_reward``, and there is no ``grade`` either.
        """
        if self.ending is None:
            if grade is not None:
                return grade(self.answer)
            if not self._environment.rewards:
                raise SettingsError(
                    f"the class {self._environment.name!r} has no method 'get_reward' and there "
                    "is no verifier: nothing says what a trajectory is worth"
                )
            told = self.messages if self._environment.reads_messages else []
            found = self._ask(encode(["reward", told]), "get_reward")
            if found is not None:
                _, outcome, reward, reason = found
                self._end(Outcome(outcome), reason, reward)
        assert self.ending is not None
        return self.ending

    def verdict_by(self, verifier: Verifier | None, problem: Problem) -> Verdict:
        """As ``verdict``, with a verifier that grades the answer; None: there is none."""
        if verifier is None:
            return self.verdict()
        return self.verdict(lambda text: verifier.grade([problem], [text])[0])

    def close(self) -> None:
        """End the process. Closing twice is harmless."""
        if self._open:
            self._open = False
            self._worker.kill_and_wait()

    def _run(self, call: ToolCall | BadCall) -> ToolResult:
        call = with_names(call, self._environment.by_name)
        if isinstance(call, BadCall):
            return self._failure("", call.reason)
        schema = self._environment.by_name.get(call.name)
        if schema is None:
            tools = ", ".join(self._environment.by_name) or "none"
            return self._failure("", f"no tool is named {call.name!r:.80}; there are {tools}")
        if fault := fault_of(schema, call.arguments):
            return self._failure(call.name, fault)
        answer = self._ask(encode(["call", call.name, dict(call.arguments)]), call.name)
        if answer is None:
            return ToolResult(call.name, "", failed=True)
        if answer[0] == "raised":
            return self._failure(call.name, answer[1])
        self.calls[call.name] += 1
        self.order.append(call.name)
        if call.name == self._environment.submits:
            self._submitted = True
            self.answer = clean(" ".join(str(value) for value in call.arguments.values()))
        return ToolResult(call.name, answer[1])

    def _failure(self, tool: str, reason: str) -> ToolResult:
        """A result that tells an error, or the end where there were too many."""
        self.calls[tool] += 1
        self.order.append(tool)
        self.failures += 1
        allowed = self._environment.limits.errors
        if self.failures > allowed:
            self._end(Outcome.INVALID, f"more than {allowed} calls failed, the last: {reason}")
        return ToolResult.of_error(tool, reason)

    def _ask(self, request: bytes, what: str) -> list[Any] | None:
        """The child's answer; None where it ended the trajectory."""
        reply = self._worker.exchange([request])[0]
        if reply.kind is ReplyKind.OK and not self._worker.retired:
            answer: list[Any] = reply.value
            if answer[0] not in ("over", "crashed"):
                return answer
            over = answer[0] == "over"
            self._end(Outcome.OVER_LIMIT if over else Outcome.CRASHED, f"{what}: {answer[1]}")
        elif reply.kind is ReplyKind.TIMED_OUT:
            self._end(Outcome.TIMED_OUT, f"{what}: {reply.reason}")
        else:
            reason = reply.reason
            if reply.kind is ReplyKind.CRASHED and not reason:
                self._open = False
                reason = f"the process died: {self._worker.kill_and_wait()}"
            self._end(Outcome.CRASHED, f"{what}: {reason}")
        return None

    def _end(self, outcome: Outcome, reason: str, reward: float = 0.0) -> None:
        self.ending = Verdict(outcome=outcome, reward=reward, reason=reason)
        self.close()

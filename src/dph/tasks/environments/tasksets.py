"""Tasksets of the package ``verifiers`` (version 1): theirs as environments, problems as theirs.

``environment.path = "verifiers:PACKAGE"`` makes a class of TRL's contract of a taskset: its tool
servers' methods are the tools, called in this process, and its rewards score the conversation. A
taskset that needs a container, several agents, a judge or a hook of its own is refused by name.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from dph._base.import_path import search_in
from dph.errors import DataError, SettingsError, VerifierError
from dph.records import UNGRADED, Problem
from dph.tasks.environments.calls import documented
from dph.tasks.environments.environment import EnvironmentVerifier
from dph.tasks.verifiers.base import OneAtATime, Verifier

if TYPE_CHECKING:
    import verifiers.v1 as vf

PREFIX = "verifiers:"
"""Beginning of an ``environment.path`` that names a taskset."""
_REFUSED_HOOKS = {"setup": "set-up", "finalize": "finalize", "stage_verifier": "stage_verifier"}


class Packages:
    """Classes of tasksets by the names of their packages, for an import path."""

    def __getattr__(self, package: str) -> type:
        return taskset_class(package)


packages = Packages()


def _taskset(package: str, directories: Sequence[Path] = ()) -> "vf.Taskset":
    """The taskset of an installed package, or of a module of the user's."""
    try:
        import verifiers.v1 as vf  # noqa: PLC0415 - an optional package, seconds to import
        from verifiers.v1.utils import loaders  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"the taskset {package!r} needs verifiers from version 0.4: {error}"
        ) from error
    if directories:
        search_in(directories)
    try:
        config = loaders.taskset_config_type(package)(id=package)
        taskset: vf.Taskset = loaders.load_taskset(config)
    except (Exception, SystemExit) as error:
        raise SettingsError(
            f"no taskset {package!r} of verifiers: {type(error).__name__}: {error}"[:500]
        ) from error
    task = taskset.task_type()
    hooks = [name for name in _REFUSED_HOOKS if getattr(task, name) is not getattr(vf.Task, name)]
    lacking = [f"its own {_REFUSED_HOOKS[name]}" for name in hooks]
    if task.NEEDS_CONTAINER:
        lacking.append("a container")
    if loaders.environment_class(package) is not vf.SingleAgentEnv:
        lacking.append("its own Env")
    if config.task.judges:
        lacking.append("judges")
    marked = {name for klass in task.__mro__ for name, fn in vars(klass).items() if _hook(fn)}
    lacking += [f"the hook {name}" for name in sorted(marked)]
    if lacking:
        raise SettingsError(f"the taskset {package!r} needs {', '.join(lacking)}: not supported")
    return taskset


def _hook(function: object) -> bool:
    """True where it acts between turns, or scores with a runtime."""
    if hasattr(function, "stop") or hasattr(function, "intercept"):
        return callable(function)
    if not (hasattr(function, "reward") or hasattr(function, "metric")):
        return False
    runtime = inspect.signature(function).parameters.get("runtime")  # type: ignore[arg-type]
    return runtime is not None and runtime.default is inspect.Parameter.empty


def taskset_problems(
    package: str, *, count: int | None = None, directories: Sequence[Path] = ()
) -> list[Problem]:
    """The tasks of a taskset as problems; ``reset`` of its class gets their data back."""
    taskset = _taskset(package, directories)
    if count is None and not taskset.bounded:
        raise SettingsError(f"the taskset {package!r} is endless: give --count N")
    problems = []
    for place, task in enumerate(islice(taskset, count)):
        data = task.data.model_dump(mode="json", exclude_defaults=True)
        messages = _opening(data)
        if not messages or not all(isinstance(m["content"], str) for m in messages):
            raise DataError(f"task {place} of {package!r} has no prompt of text")
        alone = len(messages) == 1 and isinstance(data.get("prompt"), str)
        prompt = messages[0]["content"] if alone else tuple(messages)
        name = f"{package}/{place}"
        problems.append(Problem(problem_id=name, prompt=prompt, answer={"task": data}))
    return problems


def _opening(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    prompt = data.get("prompt") or []
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    system = data.get("system_prompt")
    return [{"role": "system", "content": system}, *asked] if system else asked


def taskset_class(package: str) -> type:
    taskset = _taskset(package)  # which says so if verifiers is missing
    from verifiers.v1.utils.decorators import discover_decorated  # noqa: PLC0415

    tools: dict[str, Callable[..., Any]] = {}
    for place, server in enumerate(_servers(taskset)):
        for function in discover_decorated(server, "tool"):
            name = getattr(function, "tool_name", None) or function.__name__
            prefix = f"{server.server_name}_" if server.server_name else ""
            tools[f"{prefix}{name}"] = _method(f"{prefix}{name}", function, place)
    return type(package, (TasksetEnvironment,), {"_package": package, **tools})


def _servers(taskset: "vf.Taskset") -> list[Any]:
    own = taskset.task_type().toolsets(taskset.config.task)
    return [*type(taskset).toolsets(taskset.config), *own]


def _method(name: str, function: Callable[..., Any], place: int) -> Callable[..., Any]:
    """The tool as a method of the class, with the same signature, and every argument described."""
    signature, called = inspect.signature(function), function.__name__

    async def tool(self: "TasksetEnvironment", *values: Any, **named: Any) -> Any:
        found = getattr(self._tool_servers[place], called)(*values, **named)
        return await found if inspect.isawaitable(found) else found

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    tool.__name__, tool.__annotations__ = name, get_type_hints(function)
    tool.__doc__ = documented(function)
    parameters = [first, *signature.parameters.values()]
    tool.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return tool


class TasksetEnvironment:
    """A trajectory in one task of a taskset."""

    _package = ""

    async def reset(self, task: Mapping[str, Any], **columns: Any) -> None:
        """Make the task and its tool servers, which share its state."""
        from verifiers.v1.state import state_cls  # noqa: PLC0415

        del columns
        taskset = _taskset(self._package)
        kind = taskset.task_type()
        self._task = kind(kind.data_type().model_validate(dict(task)), taskset.config.task)
        self._state = state_cls(kind)()
        self._tool_servers = _servers(taskset)
        for server in self._tool_servers:
            server._inert_state = self._state
            await server.setup()
            await server.setup_task(self._task.data)

    async def get_reward(self, messages: Sequence[Mapping[str, Any]]) -> float:
        """The sum of the task's rewards for the conversation."""
        import verifiers.v1 as vf  # noqa: PLC0415

        task, data = self._task, self._task.data
        trace: Any = vf.Trace(
            task=vf.TraceTask(type=type(task).__name__, data=data, key=task.key, hash=task.hash),
            agent=vf.AgentInfo(config=vf.AgentConfig()),
        )
        trace.state = self._state
        said = _messages([*_opening(data.model_dump(mode="json")), *messages])
        for place, (message, sampled) in enumerate(said):
            parent = place - 1 if place else None
            trace.nodes.append(vf.MessageNode(parent=parent, message=message, sampled=sampled))
        trace.ok = trace.is_completed = True
        await task.score(trace)
        return float(trace.reward)


def _messages(said: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, bool]]:
    """Messages of verifiers, and whether the policy wrote them."""
    import verifiers.v1 as vf  # noqa: PLC0415

    ids: list[str] = []
    for place, message in enumerate(said):
        role, content = message["role"], message["content"]
        if role == "assistant":
            calls = [
                vf.ToolCall(id=f"{place}-{n}", name=name, arguments=json.dumps(arguments))
                for n, (name, arguments) in enumerate(message.get("calls", ()))
            ]
            ids = [call.id for call in calls]
            yield vf.AssistantMessage(content=content, tool_calls=calls or None), True
        elif role == "tool":
            number = message.get("call")
            call = message.get("tool_call_id", "") if number is None else ids[number]
            name = message.get("name", "")
            yield vf.ToolMessage(tool_call_id=call, content=content, name=name), False
        else:
            kind = vf.SystemMessage if role == "system" else vf.UserMessage
            yield kind(content=content), False


def problem_taskset(problems: Sequence[Problem], verifier: Verifier) -> type:
    """Problems as a taskset class of verifiers, graded by a verifier of this package.

    A module that exports it by ``__all__`` is a taskset for the harnesses and trainers of
    verifiers. An answer that cannot be graded (CRASHED, BAD_GOLD) is an error of its trace.
    """
    if isinstance(verifier, EnvironmentVerifier):
        raise SettingsError(
            f"a taskset of verifiers runs tools in separate servers, not in the environment "
            f"{verifier.environment.name!r}: give only the verifier of the answers"
        )
    import verifiers.v1 as vf  # noqa: PLC0415

    by_id = {problem.problem_id: problem for problem in problems}
    grader = OneAtATime(verifier)

    class GradedTask(vf.Task[vf.TaskData]):  # type: ignore[misc]
        @vf.reward  # type: ignore[untyped-decorator]
        async def graded(self, trace: Any) -> float:
            problem = by_id[self.data.id]
            (verdict,) = await asyncio.to_thread(grader.grade, [problem], [trace.last_reply])
            trace.info["verdict"] = f"{verdict.outcome.value} {verdict.reason}".strip()
            if verdict.outcome in UNGRADED:
                raise VerifierError(f"{verdict.outcome.value}: {verdict.reason}")
            return verdict.reward

    class ProblemTaskset(vf.Taskset[GradedTask, vf.TasksetConfig]):  # type: ignore[misc]
        def load(self) -> Iterator[Any]:
            for problem in problems:
                asked = problem.prompt
                prompt = asked if isinstance(asked, str) else [dict(m) for m in asked]
                data = vf.TaskData.model_validate({"id": problem.problem_id, "prompt": prompt})
                yield GradedTask(data)

    return ProblemTaskset

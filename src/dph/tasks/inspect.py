"""Problems as a task of Inspect: its data set, a solver that acts in an environment, our scorer."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dph.errors import SettingsError
from dph.records import UNGRADED, Outcome, Problem, Verdict
from dph.tasks.environments import BadCall, EnvironmentVerifier, ToolCall, ToolResult
from dph.tasks.environments.calls import require_chat_form
from dph.tasks.verifiers.base import OneAtATime, Verifier
from dph.tasks.verl import GROUND_TRUTH_FIELDS

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.scorer import Scorer
    from inspect_ai.solver import Solver

SCORER = "verdict"
_NO_RESULT = ToolResult.of_error("", "too many calls stood in one turn")


def inspect_task(problems: Sequence[Problem], verifier: Verifier) -> "Task":
    """A task for ``inspect_ai.eval``: close the verifier afterwards.

    The scorer ``verdict`` gives C for a reward of 1, I for 0, and else the reward. An answer that
    cannot be graded (CRASHED, BAD_GOLD) has no score. With an ``EnvironmentVerifier`` the model
    gets the tools of its environment, whose limits of turns and calls hold.
    """
    try:
        from inspect_ai import Task  # noqa: PLC0415 - an optional package, seconds to import
        from inspect_ai.dataset import MemoryDataset, Sample  # noqa: PLC0415
        from inspect_ai.solver import generate  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(f"a task of Inspect needs inspect_ai: {error}") from error
    by_id = {problem.problem_id: problem for problem in problems}
    if isinstance(verifier, EnvironmentVerifier):
        solver, scorer = _acting(verifier, by_id), _scorer(None, by_id)
    else:
        solver, scorer = generate(), _scorer(OneAtATime(verifier), by_id)
    samples = [
        Sample(input=_input(problem), target=target_of(problem), id=problem.problem_id)
        for problem in problems
    ]
    name = verifier.name.replace(":", ".")
    return Task(dataset=MemoryDataset(samples), solver=solver, scorer=scorer, name=name)


def _input(problem: Problem) -> Any:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser  # noqa: PLC0415

    if isinstance(problem.prompt, str):
        return problem.prompt
    kind = {"assistant": ChatMessageAssistant, "system": ChatMessageSystem, "user": ChatMessageUser}
    return [kind[message["role"]](content=message["content"]) for message in problem.prompt]


def _scorer(grader: Verifier | None, by_id: Mapping[str, Problem]) -> "Scorer":
    """Grades the completion; without a grader, the verdict is in the sample's metadata."""
    from anyio.to_thread import run_sync  # noqa: PLC0415
    from inspect_ai.scorer import Score, Target, accuracy, scorer, stderr  # noqa: PLC0415
    from inspect_ai.solver import TaskState  # noqa: PLC0415

    async def score(state: TaskState, target: Target) -> Score:
        del target
        answer = state.output.completion
        if grader is not None:
            graded = partial(grader.grade, [by_id[str(state.sample_id)]], [answer])
            (found,) = await run_sync(graded)
        elif SCORER in state.metadata:
            told = state.metadata[SCORER]
            found = Verdict(**{**told, "outcome": Outcome(told["outcome"])})
        else:  # a limit of Inspect's own
            found = Verdict(outcome=Outcome.CUT_OFF, reward=0.0, reason="it did not end")
        why = ": ".join(filter(None, (found.outcome.value, found.reason)))
        if found.outcome in UNGRADED:
            return Score.unscored(reason="scoring_failed", answer=answer, explanation=why)
        value = {1.0: "C", 0.0: "I"}.get(found.reward, found.reward)
        return Score(value=value, answer=answer, explanation=why)

    made: Scorer = scorer(metrics=[accuracy(), stderr()], name=SCORER)(lambda: score)()
    return made


def _acting(verifier: EnvironmentVerifier, by_id: Mapping[str, Problem]) -> "Solver":
    """Turn after turn in the environment; the verdict goes into the sample's metadata."""
    from anyio.to_thread import run_sync  # noqa: PLC0415
    from inspect_ai.model import ChatMessageTool  # noqa: PLC0415
    from inspect_ai.solver import Generate, TaskState, solver  # noqa: PLC0415

    environment, grader = verifier.environment, verifier.verifier
    one_at_a_time = None if grader is None else OneAtATime(grader)
    require_chat_form(environment.form, "a task of Inspect")

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        problem = by_id[str(state.sample_id)]
        episode = await run_sync(partial(environment.begin, problem, member=state.epoch))
        with episode:
            state.tools = [_tool(each["function"]) for each in environment.tools]
            if episode.said:
                last = state.messages[-1]
                state.messages[-1] = last.model_copy(update={"content": last.text + episode.said})
            while episode.ending is None:
                state = await generate(state, tool_calls="none")
                if state.output.stop_reason == "max_tokens":
                    episode.cut_off("cut off at the limit of tokens")
                    break
                message = state.output.message
                called = message.tool_calls or []
                calls = [
                    BadCall(c.parse_error) if c.parse_error else ToolCall(c.function, c.arguments)
                    for c in called
                ]
                results = await run_sync(episode.take, message.text, calls)
                if not results:
                    break
                results += [_NO_RESULT] * (len(called) - len(results))
                for call, result in zip(called, results, strict=True):
                    told = {"tool_call_id": call.id, "function": call.function}
                    state.messages.append(ChatMessageTool(content=result.text, **told))
            verdict = await run_sync(episode.verdict_by, one_at_a_time, problem)
        state.metadata[SCORER] = {
            "outcome": verdict.outcome.value,
            "reward": verdict.reward,
            "reason": verdict.reason,
        }
        return state

    made: Solver = solver(name="acting")(lambda: solve)()
    return made


def _tool(function: Mapping[str, Any]) -> Any:
    """A tool as the model is told of it; the solver runs it."""
    from inspect_ai.tool import ToolDef, ToolParams  # noqa: PLC0415

    async def elsewhere(**_: Any) -> str:
        raise SettingsError("the solver of this task runs tools: leave tool_calls to it")

    parameters = ToolParams.model_validate(function["parameters"])
    told = {"name": function["name"], "description": function["description"]}
    return ToolDef(elsewhere, parameters=parameters, **told)


def target_of(problem: Problem | None) -> str:
    """The gold answer as a text; all that a problem's answer holds where no field is known."""
    if problem is None:
        return ""
    for field in GROUND_TRUTH_FIELDS:
        found = problem.answer.get(field)
        if isinstance(found, str):
            return found
    return json.dumps(dict(problem.answer), ensure_ascii=False, sort_keys=True)

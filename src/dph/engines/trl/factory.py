"""Problems, a verifier and its environment as arguments of TRL's own ``GRPOTrainer``.

    trainer = GRPOTrainer(model=..., args=..., **trainer_arguments(problems, verifier))

TRL runs tools in the trainer's own process; those of ours run in a process of each trajectory, so a
tool that hangs or dies costs that trajectory alone, and the gold answer reaches no tool.
"""

import ast
import functools
import inspect
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

from dph._base.import_path import load_callable
from dph.engines.trl.dataset import (
    LogMetric,
    Observe,
    RewardFunction,
    problems_dataset,
    reward_function,
    told_rewards,
)
from dph.errors import SettingsError
from dph.model.sampler.graded import CUT_OFF
from dph.records import Problem, Verdict
from dph.tasks.environments import EnvironmentVerifier, Episode, ToolCall
from dph.tasks.environments.calls import require_chat_form
from dph.tasks.verifiers.base import Verifier


def trainer_arguments(
    problems: Sequence[Problem],
    verifier: Verifier,
    *,
    chat: bool = False,
    system_prompt: str = "",
    stop_token_ids: Collection[int] = (),
    observe: Observe | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """``train_dataset``, ``reward_funcs`` and, for an environment, ``environment_factory``.

    Args:
        problems: to train on.
        verifier: of answers, or an ``EnvironmentVerifier``; that of a recipe is made by
            ``dph.runs.answers.run_verifier``. The caller closes it.
        chat: as of ``problems_dataset``; an environment needs a chat anyway.
        system_prompt: as of ``problems_dataset``.
        stop_token_ids: as of ``reward_function``.
        observe: as of ``reward_function``.
        seed: with a problem's id it decides how every trajectory of the problem begins.

    Raises:
        DataError: as ``problems_dataset``.
        SettingsError: TRL cannot tell the class what it reads: calls of another form than a chat's,
            or the conversation (``get_reward(messages)``).
    """
    acts = isinstance(verifier, EnvironmentVerifier)
    dataset = problems_dataset(problems, chat=chat or acts, system_prompt=system_prompt)
    if not isinstance(verifier, EnvironmentVerifier):
        rewards = reward_function(verifier, stop_token_ids=stop_token_ids, observe=observe)
        return {"train_dataset": dataset, "reward_funcs": rewards}
    environment = verifier.environment
    require_chat_form(environment.form, "TRL's environment_factory")
    if environment.reads_messages:
        raise SettingsError(
            f"the get_reward of {environment.name!r} reads messages, which TRL's "
            "environment_factory does not tell: use `dph run`, whose own engine does"
        )
    return {
        "train_dataset": dataset,
        "environment_factory": environment_class(problems, verifier, seed=seed),
        "reward_funcs": _end_rewards(verifier, stop_token_ids, observe),
    }


def environment_class(
    problems: Sequence[Problem], verifier: EnvironmentVerifier, *, seed: int = 0
) -> type:
    """A class whose tools are those of the environment, each run in the trajectory's process."""
    environment, members = verifier.environment, count()
    by_id = {problem.problem_id: problem for problem in problems}

    class Acting:
        _episode: Episode | None = None

        def reset(self, problem_id: str, **columns: Any) -> str | None:
            """Begin a trajectory of a problem; other columns of TRL's row are not read."""
            del columns
            if self._episode is not None:
                self._episode.close()
            self._problem = by_id[problem_id]
            self._episode = environment.begin(self._problem, seed=seed, member=next(members))
            return self._episode.said or None

        def _end(self, said: Sequence[Mapping[str, Any]], *, finished: bool) -> Verdict:
            """Worth of the end: the last turn, if it is one and calls no tool, is an answer."""
            last = said[-1]
            assert self._episode is not None
            with self._episode as episode:
                if finished and last["role"] == "assistant" and not last.get("tool_calls"):
                    episode.take(last["content"], ())
                else:
                    episode.cut_off(CUT_OFF.reason)
                return episode.verdict_by(verifier.verifier, self._problem)

    made = load_callable(environment.name, environment.directories)
    for name in environment.by_name:
        setattr(Acting, name, _tool(name, getattr(made, name)))
    return Acting


def _tool(name: str, function: Any) -> Any:
    """The tool as a method that TRL reads types and docstring of."""
    names = list(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def tool(self: Any, *values: Any, **named: Any) -> str:
        arguments = {**dict(zip(names, values, strict=False)), **named}
        result = self._episode.call(ToolCall(name, arguments))
        if result.failed:  # as TRL tells and counts an error
            raise ValueError(ast.literal_eval(result.text)["error"])
        text: str = result.text
        return text

    return tool


def _end_rewards(
    verifier: EnvironmentVerifier, stop_token_ids: Collection[int], observe: Observe | None
) -> RewardFunction:
    """The reward function of ``environment_class``, under the verifier's name."""

    def reward(
        *,
        completions: Sequence[Any],
        problem_id: Sequence[str],
        environments: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        log_metric: LogMetric = lambda _name, _value: None,
        **_: Any,
    ) -> list[float | None]:
        verdicts = []
        for acting, said, ids in zip(environments, completions, completion_ids, strict=True):
            finished = not stop_token_ids or (bool(ids) and ids[-1] in stop_token_ids)
            verdicts.append(acting._end(said, finished=finished))
        if observe is not None:
            observe(log_metric, verdicts)
        return told_rewards(problem_id, verdicts)

    reward.__name__ = verifier.name
    return reward

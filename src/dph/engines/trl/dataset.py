"""Problems, a verifier and its environment as arguments of TRL's own ``GRPOTrainer``.

    trainer = GRPOTrainer(model=..., args=..., **trainer_arguments(problems, verifier))

TRL runs tools in the trainer's own process; those of ours run in a process of each trajectory, so a
tool that hangs or dies costs only that trajectory, and no tool sees the gold answer.
"""

import ast
import functools
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pyarrow as pa
from datasets import Dataset

from dph._base.import_path import load_callable
from dph.errors import DataError, SettingsError
from dph.model.prompts import chat_messages
from dph.model.sampler.graded import CUT_OFF
from dph.records import UNGRADED, Outcome, Problem, Verdict
from dph.tasks.environments import EnvironmentVerifier, Episode, ToolCall
from dph.tasks.environments.calls import require_chat_form
from dph.tasks.verifiers.base import Verifier


def problems_dataset(
    problems: Sequence[Problem], *, chat: bool = False, system_prompt: str = ""
) -> Dataset:
    """A data set with the columns ``prompt``, ``problem_id`` and ``answer``, and those of answers.

    ``answer`` is one JSON text a problem: columns of Arrow have one type, answers need not. A field
    that has one in all problems is also a column, for reward functions that read it by its name.
    ``chat`` and ``system_prompt`` make messages of a text as a recipe's ``[data]`` does, so that
    TRL's prompt has the same tokens.

    Raises:
        DataError: there are no problems, some prompts are text and some are messages, or an
            answer is not JSON.
    """
    if not problems:
        raise DataError("a data set needs at least one problem")
    prompts = [_prompt(problem, chat, system_prompt) for problem in problems]
    if len({isinstance(prompt, str) for prompt in prompts}) > 1:
        raise DataError("some prompts are text and some are messages: set chat=True")
    rows: dict[str, list[Any]] = {
        "prompt": prompts,
        "problem_id": [problem.problem_id for problem in problems],
        "answer": [_json(problem) for problem in problems],
    }
    fields = dict.fromkeys(name for problem in problems for name in problem.answer)
    for name in [name for name in fields if name not in rows]:
        # A column of several types, or of values that Arrow lacks, is left out.
        with suppress(pa.ArrowException, TypeError, OverflowError, UnicodeError):
            rows[name] = pa.array([problem.answer.get(name) for problem in problems]).to_pylist()
    return Dataset.from_dict(rows)


def problem_of_columns(problem_id: str, prompt: Any, answer: str) -> Problem:
    """The problem of a row; a verifier reads its answer."""
    try:
        fields = json.loads(answer)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"problem {problem_id!r}: the column answer is not JSON: {answer!r:.80}"
        ) from error
    if not isinstance(fields, dict):
        raise DataError(f"problem {problem_id!r}: answer is not a JSON object, got {fields!r:.80}")
    text = prompt if isinstance(prompt, str) else tuple(prompt)
    return Problem(problem_id=problem_id, prompt=text, answer=fields)


def _prompt(problem: Problem, chat: bool, system_prompt: str) -> str | list[dict[str, str]]:
    if isinstance(problem.prompt, str) and not chat:
        if system_prompt:
            raise DataError("system_prompt needs chat=True: a plain prompt is used unchanged")
        return problem.prompt
    return chat_messages(problem.prompt, system_prompt=system_prompt)


def _json(problem: Problem) -> str:
    try:
        return json.dumps(dict(problem.answer), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"problem {problem.problem_id!r} is not JSON: {error}") from error


# A verifier as a reward function of TRL.

RewardFunction = Callable[..., list[float | None]]


LogMetric = Callable[[str, float], None]
"""TRL's ``log_metric``: a number under a name, averaged over a step and all processes."""

Observe = Callable[[LogMetric, Sequence[Verdict]], None]
"""Is told the verdict of every completion, with TRL's function for numbers to be logged."""


def reward_function(
    verifier: Verifier, *, stop_token_ids: Collection[int] = (), observe: Observe | None = None
) -> RewardFunction:
    """Rewards of ``verifier`` for ``GRPOTrainer(reward_funcs=...)``, under the verifier's name.

    The data set needs the columns of ``problems_dataset``. A completion that could not be graded
    gets None, which TRL leaves out of its group's mean and gives no advantage: one whose grading
    broke off (CRASHED), and every completion of a problem whose gold answer cannot be graded
    (BAD_GOLD), also those that were graded before that was known.

    With ``stop_token_ids`` a completion that does not end in one of them was cut off: it gets 0
    without being graded, as in the package's own loop. Without them it is graded as it is.

    ``observe`` is told the verdict of every completion, with TRL's function for numbers to be
    logged. The caller closes the verifier.
    """

    def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        problem_id: Sequence[str] | None = None,
        answer: Sequence[str] | None = None,
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_metric: LogMetric = lambda _name, _value: None,
        **_: Any,
    ) -> list[float | None]:
        if problem_id is None or answer is None:
            missing = "problem_id" if problem_id is None else "answer"
            raise DataError(
                f"the data set has no column {missing!r}: {verifier.name} needs prompt, "
                "problem_id and answer (JSON); make it with dph.engines.trl.problems_dataset"
            )
        finished = [True] * len(completions)
        if stop_token_ids and completion_ids is not None:
            finished = [bool(ids) and ids[-1] in stop_token_ids for ids in completion_ids]
        chosen = [i for i, whole in enumerate(finished) if whole]
        graded = verifier.grade(
            [problem_of_columns(problem_id[i], prompts[i], answer[i]) for i in chosen],
            [_text(completions[i]) for i in chosen],
        )
        known = dict(zip(chosen, graded, strict=True))
        verdicts = [known.get(i, CUT_OFF) for i in range(len(completions))]
        if observe is not None:
            observe(log_metric, verdicts)
        return told_rewards(problem_id, verdicts)

    reward.__name__ = verifier.name
    return reward


def told_rewards(problem_id: Sequence[str], verdicts: Sequence[Verdict]) -> list[float | None]:
    """Rewards as TRL takes them; None if an answer, or its problem, could not be graded."""
    pairs = list(zip(problem_id, verdicts, strict=True))
    bad = {problem for problem, verdict in pairs if verdict.outcome is Outcome.BAD_GOLD}
    return [
        None if problem in bad or verdict.outcome in UNGRADED else verdict.reward
        for problem, verdict in pairs
    ]


def _text(completion: Any) -> str:
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"]
    if not isinstance(content, str):
        raise DataError(f"an answer must be text, got {content!r:.80}")
    return content


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
            """The verdict on the end: the last turn, if it calls no tool, is an answer."""
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
    """The tool as a method whose types and docstring TRL reads."""
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

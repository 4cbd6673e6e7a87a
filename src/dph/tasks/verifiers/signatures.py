"""Signatures of reward functions: dph's own, and those that TRL, verl and verifiers call.

A function is recognised by the names of its parameters, and called as its own trainer calls it:

- ``function(response, problem)``: dph;
- ``function(completions, prompts, **columns)``, a reward for each completion: TRL;
- ``function(data_source, solution_str, ground_truth, extra_info)``, a number or a dictionary with
  ``score``: verl;
- ``function(completion, answer, prompt, ...)``, any of these: verifiers.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from dph.records import Problem

_GOLD_NAMES = ("ground_truth", "answer", "solution")


class Signature(StrEnum):
    """The trainer whose reward functions have this signature."""

    DPH = "dph"
    TRL = "TRL"
    VERL = "verl"
    VERIFIERS = "verifiers"


_TOLD_BY = {
    "completions": Signature.TRL,
    "solution_str": Signature.VERL,
    "completion": Signature.VERIFIERS,
}


def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of a function, by the names of its parameters.

    >>> def accuracy(completions, solution, **kwargs): ...
    >>> signature_of(accuracy), signature_of(lambda response, problem: 1.0)
    (<Signature.TRL: 'TRL'>, <Signature.DPH: 'dph'>)
    """
    names = _parameters(function)
    if "problem" in names:
        return Signature.DPH
    return next((kind for name, kind in _TOLD_BY.items() if name in names), Signature.DPH)


def columns_of(function: Callable[..., Any]) -> list[str]:
    """Parameters without a default that the trainer fills from columns of the data set."""
    filled = {*_TOLD_BY, "prompts", "prompt", "completion_ids", "extra_info", "data_source"}
    return [
        parameter.name
        for parameter in _parameters(function).values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in filled
    ]


class RewardFunction:
    """A reward function of any known signature, called as ``function(response, problem)``.

    A function of TRL or verifiers gets texts where the prompt is a text, and messages where it is
    a list of messages. If the first call raises with texts and not with messages, messages it is.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = signature_of(function)
        self._function = function
        self._as_messages: bool | None = None

    def __call__(self, response: str, problem: Problem) -> Any:
        """The value that the function returns for one response."""
        match self.signature:
            case Signature.DPH:
                return _result(self._function(response, problem))
            case Signature.VERL:
                value = self._call(_verl_arguments(response, problem))
                return value["score"] if isinstance(value, Mapping) else value
            case Signature.TRL:
                return self.batch([response], problem)[0]
            case Signature.VERIFIERS:
                return self._in_its_form([response], problem)

    def batch(self, responses: list[str], problem: Problem) -> list[Any]:
        """The values for several responses to one problem, which TRL passes in one call."""
        if self.signature is not Signature.TRL:
            return [self(response, problem) for response in responses]
        values = self._in_its_form(responses, problem)
        try:
            listed = list(values)
        except TypeError:
            listed = []
        if len(listed) != len(responses):
            raise TypeError(
                f"it returned {values!r:.80} for {len(responses)} completions; "
                "a list with a reward for each is allowed"
            )
        return listed

    def _in_its_form(self, responses: list[str], problem: Problem) -> Any:
        """Call with texts or with messages; the first call that does not raise decides."""
        first = not isinstance(problem.prompt, str)
        forms = [first, not first] if self._as_messages is None else [self._as_messages]
        errors = []
        for form in forms:
            try:
                value = self._call(self._columns(responses, problem, as_messages=form))
            except (TypeError, KeyError, IndexError, AttributeError) as error:
                errors.append(error)
            else:
                self._as_messages = form
                return value
        raise errors[0]

    def _columns(
        self, responses: list[str], problem: Problem, *, as_messages: bool
    ) -> dict[str, Any]:
        prompt: Any = problem.prompt
        answers: list[Any] = responses
        if as_messages:
            prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            answers = [[{"role": "assistant", "content": response}] for response in responses]
        elif not isinstance(prompt, str):
            prompt = "\n".join(message["content"] for message in prompt)
        if self.signature is Signature.TRL:
            count = len(responses)
            fields = {"problem_id": problem.problem_id, **problem.answer}
            columns = {name: [value] * count for name, value in fields.items()}
            return {**columns, "prompts": [prompt] * count, "completions": answers}
        given = {"info": {}, "task": "", **problem.answer, "prompt": prompt}
        given["completion"] = answers[0]
        return {**given, "state": dict(given)}

    def _call(self, given: Mapping[str, Any]) -> Any:
        """Call with those of the arguments that it takes."""
        parameters = _parameters(self._function)
        any_name = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        missing = [
            name
            for name, each in parameters.items()
            if name not in given
            and each.default is each.empty
            and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ]
        if missing:
            raise TypeError(
                f"the function ({self.signature}) needs {', '.join(missing)}; "
                f"given are {', '.join(sorted(given))}"
            )
        return _result(
            self._function(**{k: v for k, v in given.items() if any_name or k in parameters})
        )


def _verl_arguments(response: str, problem: Problem) -> dict[str, Any]:
    answer = problem.answer
    gold = next((answer[name] for name in _GOLD_NAMES if name in answer), dict(answer))
    return {
        "data_source": "",
        "extra_info": {},
        **answer,
        "ground_truth": gold,
        "solution_str": response,
    }


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions without one
        return {}


def _result(value: Any) -> Any:
    """The value, or the result of the coroutine that an async function returns."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value

"""The user's own verifier: a function, run in worker processes that can be killed."""

import asyncio
import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from pathlib import Path
from typing import Any

from dph._base.import_path import (
    import_path_of,
    load_callable,
    require_one_module,
    source_file,
    source_fingerprint,
)
from dph._processes.workers.handler import TellStage
from dph._processes.workers.pool import Reply, WorkerPool
from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import PooledVerifier

_REASON_CHARACTERS = 500
_ERROR_CHARACTERS = 200
_TRACEBACK_CHARACTERS = 1500

_importing: list[str] = []
"""The import path of the function that this worker is importing at the moment."""


class FunctionGrader:
    """Grades requests ``{"response", "problem_id", "prompt", "answer"}``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = RewardFunction(function)

    def __call__(self, request: Mapping[str, Any], _stage: TellStage) -> tuple[str, float, str]:
        """Call the function; the answer is (outcome, reward, reason).

        Whatever the function raises is its doing and CRASHED, and so is a value that is no
        verdict: one answer is lost, not the run.
        """
        problem = requested_problem(request)
        try:
            value = self._function(request["response"], problem)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return Outcome.CRASHED, 0.0, describe_crash(error)
        try:
            verdict = as_verdict(value)
        except Exception as error:  # noqa: BLE001 - a value may raise in all it is asked
            return Outcome.CRASHED, 0.0, str(error)[:_REASON_CHARACTERS]
        return verdict.outcome, float(verdict.reward), str(verdict.reason)[:_REASON_CHARACTERS]


def requested_problem(request: Mapping[str, Any]) -> Problem:
    """The problem of a request, as a user's function gets it."""
    prompt = request["prompt"]
    prompt = prompt if isinstance(prompt, str) else tuple(prompt)
    return Problem(problem_id=request["problem_id"], prompt=prompt, answer=request["answer"])


def as_verdict(value: object) -> Verdict:
    """Result of a user's function, as a verdict.

    True and 1 are CORRECT. Any other number in [0, 1] is WRONG, with that reward. Scalars of
    numpy, torch and the like count as what they hold.
    """
    if isinstance(value, Verdict):
        if value.outcome is Outcome.CORRECT or value.reason:
            return value
        return replace(value, reason=f"the function returned {value.outcome} without a reason")
    # Scalars are found by what they have in common, so that no worker has to import numpy.
    item = getattr(value, "item", None)
    plain = item() if callable(item) and getattr(value, "ndim", None) == 0 else value
    if not isinstance(plain, Real | Decimal):
        raise TypeError(
            f"it returned {value!r:.80} ({type(value).__name__}); "
            "a bool, a number in [0, 1] or a Verdict is allowed"
        )
    number: Any = plain  # not all that Real stands for is typed to be compared
    if not 0 <= number <= 1:
        raise ValueError(f"it returned {value!r:.80}; a number must lie in [0, 1]")
    reward = float(number)
    outcome = Outcome.CORRECT if reward == 1.0 else Outcome.WRONG
    if reward == 1.0:
        reason = ""
    else:
        reason = f"partial reward {reward:g}" if reward else f"the function returned {plain!r:.80}"
    return Verdict(outcome=outcome, reward=reward, reason=reason)


def describe_crash(error: BaseException) -> str:
    """The error in a line, and the end of its traceback from the user's function on."""
    below = error.__traceback__
    while below and below.tb_frame.f_code.co_filename == __file__:
        below = below.tb_next
    lines = "".join(traceback.format_exception(type(error), error, below)).rstrip()
    if len(lines) > _TRACEBACK_CHARACTERS:
        lines = "..." + lines[-_TRACEBACK_CHARACTERS:]
    summary = next(line for line in traceback.format_exception_only(error) if line[:1] != " ")
    return f"{summary.splitlines()[0][:_ERROR_CHARACTERS]}\n{lines}"


def make_function_grader(options: Mapping[str, Any]) -> FunctionGrader:
    """The worker's handler: the function of ``options["path"]``, found in the ``directories``."""
    directories = [Path(directory) for directory in options.get("directories", ())]
    _importing.append(options["path"])
    try:
        return FunctionGrader(load_callable(options["path"], directories))
    finally:
        _importing.pop()


def refuse_while_importing(path: str) -> None:
    """Refuse a verifier that is made while a worker imports a function: that would never end."""
    module = path.partition(":")[0]
    if module in [each.partition(":")[0] for each in _importing]:
        raise SettingsError(
            f"importing {module!r} makes a verifier of {path!r}, whose workers would import it "
            "again; put the script's code under: if __name__ == '__main__':"
        )


class FunctionVerifier(PooledVerifier[tuple[Problem, str]]):
    """Calls ``function(response, problem)``, which returns a bool, a number in [0, 1] or a Verdict.

    Reward functions of TRL, verl and verifiers are recognised by their parameters and called as
    these call them (dph.tasks.verifiers.function).

    The function runs in worker processes and is killed when it takes longer than ``timeout``. If
    it raises, or returns something that is not a verdict, that one answer is CRASHED, and the
    reason ends with the traceback.

    ``version`` changes with the file that holds the function, but not with what that file imports.
    ``source`` is that file, and its name stands in ``settings``, so that a message about another
    version can say which file was changed.

    Args:
        function: a function that a module defines, or its import path ``module:function``.
        workers: number of worker processes.
        timeout: seconds for one answer.
        directories: where the module is looked for first; without any, the current directory is
            searched, too.

    Raises:
        SettingsError: the function cannot be imported by another process, or a setting is out
            of range.
    """

    version = "1"

    def __init__(
        self,
        function: str | Callable[[str, Problem], Any],
        *,
        workers: int = 1,
        timeout: float = 5.0,
        directories: Sequence[Path] = (),
    ) -> None:
        path = function if isinstance(function, str) else import_path_of(function)
        refuse_while_importing(path)
        self.name = path
        require_one_module(path, directories)
        self._pool = WorkerPool(
            handler="dph.tasks.verifiers.function:make_function_grader",
            options={"path": path, "directories": [str(d.resolve()) for d in directories]},
            workers=workers,
            timeout=timeout,
        )
        self._pool.start(f"the verifier {path!r}")
        self.source = source_file(path.partition(":")[0], directories)
        source = self.source.name if self.source else ""
        self.settings: Mapping[str, Any] = {"timeout": float(timeout), "source": source}
        # Verdicts of an earlier version of the function must not pass for those of this one.
        fingerprint = source_fingerprint(path.partition(":")[0], directories)
        self.version = f"{self.version} {fingerprint}".rstrip()

    def _pair(self, problem: Problem, response: str) -> tuple[Problem, str]:
        return problem, response

    def _replies(self, pairs: list[tuple[Problem, str]]) -> list[Reply]:
        try:
            return self._pool.run([request_of(*pair) for pair in pairs])
        except TypeError as error:
            raise VerifierError(
                f"{self.name!r} gets its problems as JSON, and one is not valid JSON: {error}"
            ) from error

    def _subject(self, pair: tuple[Problem, str]) -> str:
        return f"problem {pair[0].problem_id}"


def request_of(problem: Problem, response: str) -> dict[str, Any]:
    return {
        "response": response,
        "problem_id": problem.problem_id,
        "prompt": problem.prompt,
        "answer": dict(problem.answer),
    }


# A reward function is recognised by the names of its parameters, and called as its own trainer
# calls it:
#
# - ``function(response, problem)``: dph;
# - ``function(completions, prompts, **columns)``, a reward for each completion: TRL;
# - ``function(data_source, solution_str, ground_truth, extra_info)``, a number or a dictionary with
#   ``score``: verl;
# - ``function(completion, answer, prompt, ...)``, any of these: verifiers.

_GOLD_NAMES = ("ground_truth", "answer", "solution")
VERL_ROW = "verl_row"
"""The answer's field with what a row of verl had besides the prompt and the ground truth."""


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
                answer = problem.answer
                gold = next((answer[n] for n in _GOLD_NAMES if n in answer), dict(answer))
                row = answer.get(VERL_ROW)
                row = row if isinstance(row, Mapping) else {}
                given = {"data_source": row.get("data_source") or "", **answer}
                given = {"extra_info": row.get("extra_info") or {}, **given, "ground_truth": gold}
                value = self._call({**given, "solution_str": response})
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
        taken = {k: v for k, v in given.items() if any_name or k in parameters}
        return _result(self._function(**taken))


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions without one
        return {}


def _result(value: Any) -> Any:
    return asyncio.run(awaited(value)) if inspect.isawaitable(value) else value


async def awaited(value: Any) -> Any:
    return await value

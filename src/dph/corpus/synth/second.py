"""A second answer: the same task solved anew by somebody who has not seen program or tests.

Tests and program of one answer can be wrong together, and a program can know its tests in ways
that no rule foresees. A second program, written from the instruction alone, has to pass the tests
and to agree with the first beside them.
"""

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

from dph.corpus.synth.draft import Draft, parsed
from dph.corpus.synth.hard_coded import inputs_beside
from dph.corpus.synth.purity import impurity
from dph.records import Outcome, Verdict
from dph.tasks.verifiers.code.extraction import extract_program
from dph.tasks.verifiers.code.task import CodeTask
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier

_INPUTS = 16


def second_prompt(draft: Draft) -> str:
    """What the second author is asked: the instruction and the signature."""
    return (
        f"{draft.instruction}\n\nWrite the function in Python, with this signature:\n\n"
        f"```python\n{signature(draft)}\n```\n\nAnswer with one block of Python."
    )


def signature(draft: Draft) -> str:
    """The first line of the entry point."""
    tree = parsed(draft.program)
    assert tree is not None
    function = next(
        node
        for node in reversed(tree.body)
        if isinstance(node, ast.FunctionDef) and node.name == draft.entry_point
    )
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"def {function.name}({ast.unparse(function.args)}){returns}:"


def disagreements(
    verifier: CodeVerifier, drafts: Sequence[Draft], answers: Sequence[str]
) -> list[str]:
    """What the second answers say against the first; '' where nothing.

    Inputs beside the tests on which the second program fails count for neither, as long as both
    agree on half of them.
    """
    read = [_read(draft, answer) for draft, answer in zip(drafts, answers, strict=True)]
    pairs: list[tuple[int, CodePair]] = []
    for place, (draft, second) in enumerate(zip(drafts, read, strict=True)):
        if second.program:
            tests = CodeTask(tests=draft.tests, entry_point=draft.entry_point)
            pairs.append((place, CodePair(tests, second.program)))
            for call in _calls(draft):
                task = CodeTask(
                    calls=(call,), entry_point=draft.entry_point, same_as=second.program
                )
                pairs.append((place, CodePair(task, draft.program)))
    verdicts: list[list[Verdict]] = [[] for _ in drafts]
    judged = verifier.judge([pair for _, pair in pairs])
    for (place, _), one in zip(pairs, judged, strict=True):
        verdicts[place].append(one.verdict)
    return [second.against or _against(found) for second, found in zip(read, verdicts, strict=True)]


class _Second(NamedTuple):
    program: str
    against: str = ""


def _read(draft: Draft, answer: str) -> _Second:
    program = extract_program(answer, entry_point=draft.entry_point)
    tree = None if program is None else parsed(program)
    if program is None or tree is None:
        return _Second("", "the second answer holds no program")
    if reason := impurity(tree):
        return _Second("", f"the second program {reason}")
    return _Second(program)


def _against(verdicts: Sequence[Verdict]) -> str:
    """What the verdict on the tests, which comes first, and those beside them say."""
    tests, beside = verdicts[0], verdicts[1:]
    if tests.outcome != Outcome.CORRECT:
        return f"the second program fails the tests: {tests.reason}"
    told = [one for one in beside if one.outcome != Outcome.BAD_GOLD]
    if different := [one for one in told if one.outcome != Outcome.CORRECT]:
        return f"the second program differs beside the tests: {different[0].reason}"
    if 2 * len(told) < len(beside):
        return f"the second program fails beside the tests: {beside[0].reason}"
    return ""


def _calls(draft: Draft) -> tuple[dict[str, Any], ...]:
    """Inputs on which both have to agree: those of the tests and some beside them."""
    found = inputs_beside(draft)
    step = max(1, len(found) // _INPUTS)
    return tuple({"args": list(args), "kwargs": {}} for args in found[::step][:_INPUTS])

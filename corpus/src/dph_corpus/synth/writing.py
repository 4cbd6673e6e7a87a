"""A chunk of seeds: prompts, answers, verdicts, and second answers to what would be kept."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from dph._base.randomness import derived_seed
from dph.records import Outcome, Verdict
from dph.tasks.verifiers.code.task import CodeTask, extract_program
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from dph.tasks.verifiers.sql.verifier import SQLVerifier
from dph_corpus.settings import SQL, SynthSettings
from dph_corpus.synth.draft import Draft, DraftOutcome, parsed
from dph_corpus.synth.drafts import FunctionJudge, Query, QueryJudge
from dph_corpus.synth.generators import Generator
from dph_corpus.synth.hard_coded import inputs_beside
from dph_corpus.synth.seeds import Seed, impurity, prompt_of

# A second answer: the same task solved anew by somebody who has not seen program or tests.
#
# Tests and program of one answer can be wrong together, and a program can know its tests in ways
# that no rule foresees. A second program, written from the instruction alone, has to pass the
# tests and to agree with the first beside them.

_INPUTS = 16


def second_prompt(draft: Draft) -> str:
    """Prompt for the second author: the instruction and the signature."""
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
    """Disagreement of the second answers with the first; '' where there is none.

    Inputs other than the tests on which the second program fails count for neither, as long as both
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
        return _Second("", "the second answer has no program")
    if reason := impurity(tree):
        return _Second("", f"the second program {reason}")
    return _Second(program)


def _against(verdicts: Sequence[Verdict]) -> str:
    """Message from the verdict on the tests, which comes first, and from the others."""
    tests, beside = verdicts[0], verdicts[1:]
    if tests.outcome != Outcome.CORRECT:
        return f"the second program fails the tests: {tests.reason}"
    told = [one for one in beside if one.outcome != Outcome.BAD_GOLD]
    if different := [one for one in told if one.outcome != Outcome.CORRECT]:
        return f"the second program differs on other inputs than the tests: {different[0].reason}"
    if 2 * len(told) < len(beside):
        return f"the second program fails on other inputs than the tests: {beside[0].reason}"
    return ""


def _calls(draft: Draft) -> tuple[dict[str, Any], ...]:
    """Inputs on which both must agree: those of the tests and some more."""
    found = inputs_beside(draft)
    step = max(1, len(found) // _INPUTS)
    return tuple({"args": list(args), "kwargs": {}} for args in found[::step][:_INPUTS])


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """An answer and what became of it; ``row`` is what is kept of it, empty if it is dropped."""

    seed_id: str
    sample: int
    answer: str
    reason: str
    note: str
    text: str
    row: Mapping[str, Any]


class Writer(Protocol):
    """Makes rows of one kind."""

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[WrittenAnswer]:
        """Text written for each seed and sample index."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionWriter:
    """Writes functions with tests."""

    kind: str
    generator: Generator
    judge: FunctionJudge
    verifier: CodeVerifier | None

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[WrittenAnswer]:
        """As ``Writer``."""
        answers = _answers(self.generator, self.kind, asked, seed)
        judged = self.judge(answers, [one.uses for one, _ in asked])
        against = [""] * len(judged)
        kept = {p: one.draft for p, one in enumerate(judged) if one.draft and not one.reason}
        if self.verifier is not None and kept:
            prompts = [second_prompt(draft) for draft in kept.values()]
            seeds = [
                derived_seed(seed, "second", asked[place][0].id, asked[place][1]) for place in kept
            ]
            second = _storable(self.generator(prompts, seeds))
            found = disagreements(self.verifier, list(kept.values()), second)
            for place, what in zip(kept, found, strict=True):
                against[place] = what
        return [
            _written(
                place,
                answer,
                replace(verdict, reason="disputed", note=other) if other else verdict,
                _function_row,
                Draft.text,
            )
            for place, answer, verdict, other in zip(asked, answers, judged, against, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class QueryWriter:
    """Writes questions about databases with queries."""

    generator: Generator
    judge: QueryJudge

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[WrittenAnswer]:
        """As ``Writer``."""
        answers = _answers(self.generator, SQL, asked, seed)
        judged = self.judge(answers, [one.database for one, _ in asked])
        return [
            _written(place, answer, verdict, partial(_query_row, place[0].text), _query_text)
            for place, answer, verdict in zip(asked, answers, judged, strict=True)
        ]


@contextmanager
def open_writer(settings: SynthSettings, generator: Generator, *, workers: int) -> Iterator[Writer]:
    """The writer of rows of ``settings.kind``, with ``workers`` processes that execute them."""
    kind, timeout, survivors = settings.kind, settings.timeout, settings.survivors
    if settings.databases is not None:
        with SQLVerifier(
            databases=settings.databases, rule="strict", workers=workers, timeout=timeout
        ) as rows:
            yield QueryWriter(generator, QueryJudge(rows, survivors=survivors))
        return
    with CodeVerifier(workers=workers, timeout=timeout) as programs:
        judge = FunctionJudge(programs, survivors=survivors)
        yield FunctionWriter(kind, generator, judge, programs if settings.second else None)


def _written(
    place: tuple[Seed, int],
    answer: str,
    verdict: DraftOutcome[_T],
    row: Callable[[_T], Mapping[str, Any]],
    text: Callable[[_T], str],
) -> WrittenAnswer:
    """Outcome of the answer at a place; ``row`` and ``text`` are of a draft that is kept."""
    draft = verdict.draft
    told = {"killed": verdict.killed, "mutants": verdict.mutants}
    return WrittenAnswer(
        seed_id=place[0].id,
        sample=place[1],
        answer=answer,
        reason=verdict.reason,
        note=verdict.note,
        text=answer if draft is None else text(draft),
        row={**row(draft), **told} if draft is not None and not verdict.reason else {},
    )


def _function_row(draft: Draft) -> Mapping[str, Any]:
    return {
        "prompt": draft.instruction,
        "response": draft.response(),
        "tests": list(draft.tests),
        "entry_point": draft.entry_point,
    }


def _query_row(schema: str, draft: Query) -> Mapping[str, Any]:
    return {
        "prompt": f"{schema}\n\n{draft.question}",
        "response": f"```sql\n{draft.query}\n```",
        "gold_sql": draft.query,
        "database": draft.database,
    }


def _query_text(draft: Query) -> str:
    return f"-- {draft.question}\n{draft.query};\n"


def _answers(
    generator: Generator, kind: str, asked: Sequence[tuple[Seed, int]], seed: int
) -> list[str]:
    prompts = [prompt_of(kind, one) for one, _ in asked]
    seeds = [derived_seed(seed, kind, one.id, sample) for one, sample in asked]
    return _storable(generator(prompts, seeds))


def _storable(answers: Sequence[str]) -> list[str]:
    """The answers as UTF-8 can hold them: half of a surrogate pair becomes a question mark."""
    return [answer.encode("utf-8", "replace").decode() for answer in answers]

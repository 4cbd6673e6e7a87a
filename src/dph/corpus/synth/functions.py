"""Drafts of functions: kept if their tests hold, mean something, and are not known by heart.

In this order a draft is dropped for

* what cannot be read: ``program``, ``instruction``, ``tests``, ``entry_point`` (``draft``);
* ``impure``: it reaches outside of itself (``purity``);
* ``hard_coded``: it knows its tests (``hard_coded``);
* ``fails``: it does not pass its tests, twice, in a confined process (``dph._processes.sandbox``);
* ``weak``: a function that does no work passes them, or more than ``survivors`` of its mutants do.
"""

import ast
from collections.abc import Callable, Collection, Sequence

from dph.corpus.synth.draft import Draft, DraftOutcome, NoDraft, parsed, read_draft
from dph.corpus.synth.hard_coded import mutants, probe, spells_out_its_tests, stubs, wanted_values
from dph.corpus.synth.seeds import PURE_MODULES, impurity
from dph.records import Outcome
from dph.tasks.verifiers.code.task import CodeTask
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier

MOST_MUTANTS = 12
_AGAIN = 2
"""How often a program has to pass its tests."""


class FunctionJudge:
    """Judges answers by running them.

    Args:
        verifier: what runs programs.
        survivors: the largest share of mutants that may pass the tests.
        modules: what a program may import.
    """

    def __init__(
        self,
        verifier: CodeVerifier,
        *,
        survivors: float = 0.5,
        modules: Collection[str] = PURE_MODULES,
    ) -> None:
        self._verifier, self._survivors, self._modules = verifier, survivors, modules

    def __call__(self, answers: Sequence[str], uses: Sequence[str]) -> list[DraftOutcome[Draft]]:
        """Outcome of each answer; each must call the name of ``uses`` ('': anything)."""
        found = [self._read(answer, name) for answer, name in zip(answers, uses, strict=True)]
        found = self._where_kept(found, self._run)
        return self._where_kept(found, self._test_tests)

    def _where_kept(
        self,
        found: list[DraftOutcome[Draft]],
        judge: Callable[[Sequence[Draft]], list[DraftOutcome[Draft]]],
    ) -> list[DraftOutcome[Draft]]:
        kept = {p: one.draft for p, one in enumerate(found) if one.draft and not one.reason}
        for place, one in zip(kept, judge(list(kept.values())), strict=True):
            found[place] = one
        return found

    def _read(self, answer: str, uses: str) -> DraftOutcome[Draft]:
        try:
            draft = read_draft(answer)
        except NoDraft as error:
            reason, _, note = str(error).partition(": ")
            return DraftOutcome(draft=None, reason=reason, note=note)
        tree = parsed(draft.program)
        assert tree is not None
        if found := impurity(tree, modules=self._modules):
            return DraftOutcome(draft=draft, reason="impure", note=found)
        if uses and not _calls(tree, uses):
            return DraftOutcome(draft=draft, reason="unused", note=f"does not call {uses}")
        if spells_out_its_tests(draft):
            return DraftOutcome(
                draft=draft, reason="hard_coded", note="holds its tests as constants"
            )
        if wanted_values(draft) < 2:
            return DraftOutcome(draft=draft, reason="weak", note="all tests expect the same value")
        return DraftOutcome(draft=draft)

    def _run(self, drafts: Sequence[Draft]) -> list[DraftOutcome[Draft]]:
        pairs = [_pair(draft, draft.program) for draft in drafts for _ in range(_AGAIN)]
        verdicts = iter([one.verdict for one in self._verifier.judge(pairs)])
        judged = []
        for draft in drafts:
            failed = [v for _ in range(_AGAIN) if (v := next(verdicts)).outcome != Outcome.CORRECT]
            if failed:
                note = f"{failed[0].outcome}: {failed[0].reason}"
                judged.append(DraftOutcome(draft=draft, reason="fails", note=note))
            else:
                judged.append(DraftOutcome(draft=draft))
        return judged

    def _test_tests(self, drafts: Sequence[Draft]) -> list[DraftOutcome[Draft]]:
        wrong = [mutants(draft.program, most=MOST_MUTANTS) for draft in drafts]
        idle = [stubs(draft.program, draft.entry_point) for draft in drafts]
        probes = [probe(draft) for draft in drafts]
        pairs = []
        for draft, programs, lazy, test in zip(drafts, wrong, idle, probes, strict=True):
            pairs += [_pair(draft, program) for program in [*programs, *lazy]]
            if test is not None:
                pairs.append(_pair(draft, draft.program, tests=(test,)))
        passed = iter(
            [one.verdict.outcome == Outcome.CORRECT for one in self._verifier.judge(pairs)]
        )
        judged = []
        for draft, programs, lazy, test in zip(drafts, wrong, idle, probes, strict=True):
            alive = sum(next(passed) for _ in programs)
            idle_passed = sum(next(passed) for _ in lazy)
            alike = test is not None and not next(passed)
            reason, note = self._weakness(alive, len(programs), idle_passed, alike=alike)
            judged.append(
                DraftOutcome(
                    draft=draft,
                    reason=reason,
                    note=note,
                    killed=len(programs) - alive,
                    mutants=len(programs),
                )
            )
        return judged

    def _weakness(self, alive: int, count: int, idle: int, *, alike: bool) -> tuple[str, str]:
        if idle:
            return "weak", "a function that does no work passes"
        if alike:
            return "hard_coded", "gives the same answer for all inputs other than its tests"
        if not count or alive > self._survivors * count:
            return "weak", f"{alive} of {count} wrong programs pass"
        return "", ""


def _pair(draft: Draft, program: str, tests: tuple[str, ...] | None = None) -> CodePair:
    task = CodeTask(tests=draft.tests if tests is None else tests, entry_point=draft.entry_point)
    return CodePair(task, program)


def _calls(tree: ast.Module, name: str) -> bool:
    """Whether a program calls ``module.function`` or ``function``."""
    last = name.rpartition(".")[2]
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        (isinstance(func, ast.Name) and func.id == last)
        or (isinstance(func, ast.Attribute) and func.attr == last)
        for func in calls
    )

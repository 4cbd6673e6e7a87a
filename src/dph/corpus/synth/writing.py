"""A chunk of seeds: prompts, answers, verdicts, and second answers to what would be kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dph.corpus.synth.functions import FunctionJudge
from dph.corpus.synth.generators import Generator
from dph.corpus.synth.prompts import PROMPTS, SQL
from dph.corpus.synth.queries import QueryJudge
from dph.corpus.synth.second import disagreements, second_prompt
from dph.corpus.synth.seeds import Seed
from dph.randomness import derived_seed
from dph.verifiers.code.verifier import CodeVerifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
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

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[Written]:
        """What was written for each seed and sample index."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionWriter:
    """Writes functions with tests.

    Args:
        kind: of ``prompts.PROMPTS``.
        generator: who writes.
        judge: what is kept.
        verifier: what compares second answers; None: there are none.
    """

    kind: str
    generator: Generator
    judge: FunctionJudge
    verifier: CodeVerifier | None

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[Written]:
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
            second = self.generator(prompts, seeds)
            found = disagreements(self.verifier, list(kept.values()), second)
            for place, what in zip(kept, found, strict=True):
                against[place] = what
        written = []
        for (one, sample), answer, verdict, other in zip(
            asked, answers, judged, against, strict=True
        ):
            draft = verdict.draft
            reason = verdict.reason or ("disputed" if other else "")
            row: dict[str, Any] = {}
            if draft is not None and not reason:
                row = {
                    "prompt": draft.instruction,
                    "response": draft.response(),
                    "tests": list(draft.tests),
                    "entry_point": draft.entry_point,
                    "killed": verdict.killed,
                    "mutants": verdict.mutants,
                }
            written.append(
                Written(
                    seed_id=one.id,
                    sample=sample,
                    answer=answer,
                    reason=reason,
                    note=verdict.note or other,
                    text=draft.text() if draft else answer,
                    row=row,
                )
            )
        return written


@dataclass(frozen=True, slots=True)
class QueryWriter:
    """Writes questions about databases with queries."""

    generator: Generator
    judge: QueryJudge

    def __call__(self, asked: Sequence[tuple[Seed, int]], seed: int) -> list[Written]:
        """As ``Writer``."""
        answers = _answers(self.generator, SQL, asked, seed)
        judged = self.judge(answers, [one.database for one, _ in asked])
        written = []
        for (one, sample), answer, verdict in zip(asked, answers, judged, strict=True):
            draft, row = verdict.draft, dict[str, Any]()
            if draft is not None and not verdict.reason:
                row = {
                    "prompt": f"{one.text}\n\n{draft.question}",
                    "response": f"```sql\n{draft.query}\n```",
                    "gold_sql": draft.query,
                    "database": draft.database,
                    "killed": verdict.killed,
                    "mutants": verdict.mutants,
                }
            written.append(
                Written(
                    seed_id=one.id,
                    sample=sample,
                    answer=answer,
                    reason=verdict.reason,
                    note=verdict.note,
                    text=f"-- {draft.question}\n{draft.query};\n" if draft else answer,
                    row=row,
                )
            )
        return written


def _answers(
    generator: Generator, kind: str, asked: Sequence[tuple[Seed, int]], seed: int
) -> list[str]:
    prompts = [PROMPTS[kind](one) for one, _ in asked]
    return generator(prompts, [derived_seed(seed, kind, one.id, sample) for one, sample in asked])

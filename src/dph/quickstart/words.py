"""Sentences on what methods lost and kept, with the numbers of one quickstart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dph.results.vocabulary import BASE, method_label, where_of
from dph.runs.evaluate.intervals import paired_difference
from dph.runs.evaluate.scores import SetScores


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedChange:
    """Problems of a set that a model solves, against the base model.

    ``change`` is the model's number minus the base model's, with its 95% interval over problems.
    """

    set_name: str
    base: int
    change: int
    lo: float
    hi: float


def solved_changes(
    scores: Mapping[str, Mapping[str, SetScores]], *, seed: int = 0
) -> dict[str, list[SolvedChange]]:
    """Changes of every model but ``base``, by set; a problem is solved if any sample is right."""
    found: dict[str, list[SolvedChange]] = {}
    for model, sets in scores.items():
        for name, of_set in sets.items() if model != BASE else ():
            before, after = (
                (one.correct_counts > 0).astype(np.float64) for one in (scores[BASE][name], of_set)
            )
            apart, count = paired_difference(after, before, seed=seed), len(before)
            change = SolvedChange(
                set_name=name,
                base=int(before.sum()),
                change=int(after.sum() - before.sum()),
                lo=count * apart.lo,
                hi=count * apart.hi,
            )
            found.setdefault(model, []).append(change)
    return found


def first_sentence(changes: Mapping[str, Sequence[SolvedChange]], *, tries: int) -> str:
    """Losses and gains of every method in one sentence.

    >>> lost = SolvedChange(set_name="in_domain", base=420, change=-69, lo=-85.0, hi=-53.0)
    >>> kept = SolvedChange(set_name="in_domain", base=420, change=6, lo=-9.0, hi=21.0)
    >>> first_sentence({"grpo": [lost], "dph_f": [kept]}, tries=16)
    'Of the problems that the base model solves within 16 tries, GRPO lost 69 of 420 in domain; \
DPH-F kept them (+6 in domain: no loss beyond chance).'
    """
    clauses = "; ".join(f"{method_label(name)} {_clause(of)}" for name, of in changes.items())
    return f"Of the problems that the base model solves within {tries} tries, {clauses}."


def _clause(changes: Sequence[SolvedChange]) -> str:
    lost = [f"{-c.change} of {c.base} {where_of(c.set_name)}" for c in changes if c.hi < 0]
    kept = [f"{c.change:+d} {where_of(c.set_name)}" for c in changes if not c.hi < 0]
    if not lost:
        return f"kept them ({', '.join(kept)}: no loss beyond chance)"
    return f"lost {' and '.join(lost)}" + (
        f" and kept the others ({', '.join(kept)})" if kept else ""
    )

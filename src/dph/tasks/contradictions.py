"""Contradictions: identical answers to one problem that got different verdicts."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable

from dph.records import Outcome

_OF_THE_MACHINE = frozenset({Outcome.TIMED_OUT, Outcome.OVER_LIMIT, Outcome.CUT_OFF})
"""Outcomes that may differ between two tries of a sound verifier."""
_TOLD: set[str] = set()
"""Verifiers whose contradictions were told in this process."""
logger = logging.getLogger(__name__)


Graded = Iterable[tuple[str, str, Outcome]]
"""Problem, answer and outcome."""


def warn_of_contradictions(verifier: str, graded: Graded) -> None:
    """Warn, once for each verifier, of identical answers that it gave different verdicts."""
    if verifier not in _TOLD and (said := contradictions(graded)):
        _TOLD.add(verifier)
        logger.warning("the verifier %r gave %s", verifier, said)


def contradictions(graded: Graded) -> str:
    """The number of identical answers with different verdicts, with an example; '' if none.

    >>> print(contradictions([("p", "4", Outcome.CORRECT), ("p", "4", Outcome.WRONG)]))
    2 of 2 identical answers different verdicts, for example '4' to problem 'p' (CORRECT 1, WRONG \
1): it is random, or remembers what it graded before
    """
    seen: defaultdict[tuple[str, str], Counter[Outcome]] = defaultdict(Counter)
    for problem, answer, outcome in graded:
        if outcome not in _OF_THE_MACHINE:
            seen[problem, answer][outcome] += 1
    repeated = {key: verdicts for key, verdicts in seen.items() if verdicts.total() > 1}
    torn = {key: verdicts for key, verdicts in repeated.items() if len(verdicts) > 1}
    if not torn:
        return ""
    (problem, answer), verdicts = next(iter(torn.items()))
    count, of = (sum(found.total() for found in some.values()) for some in (torn, repeated))
    said = ", ".join(f"{outcome} {verdicts[outcome]}" for outcome in sorted(verdicts))
    return (
        f"{count} of {of} identical answers different verdicts, for example {answer!r:.80} to "
        f"problem {problem!r:.80} ({said}): it is random, or remembers what it graded before"
    )

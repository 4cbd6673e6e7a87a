"""How strong each method is on each world where a contender does not say.

Chosen by one rule for every method, on seeds that are not reported, before the reported seeds were
run, and not touched afterwards (docs/study.md and docs/first-edition.md say how).
"""

from collections.abc import Mapping

from dph.worlds import newest_edition

_FIRST_SQL: Mapping[str, float] = {
    "rkl": 0.03,
    "alpha": 1.0,
    "dph_f": 1.0,
    "dph_js": 1.0,
    "dph_js_definition": 1.0,
}

USUAL_STRENGTHS: Mapping[tuple[str, int], Mapping[str, float]] = {
    ("sql", 1): _FIRST_SQL,
    # Those of the first edition, until a study on the second has chosen its own.
    ("sql", 2): _FIRST_SQL,
}
"""By task and edition; a method that is missing has the strength of its own table."""


def usual_strengths(task: str, edition: int | None = None) -> Mapping[str, float]:
    """Strengths by method [default: on the newest edition]."""
    return USUAL_STRENGTHS.get((task, edition or newest_edition(task)), {})

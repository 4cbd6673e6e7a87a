"""How strong each method is on each world where a contender does not say.

Chosen by one rule for every method, on seeds that are not reported, before the reported seeds were
run, and not touched afterwards (docs/study.md and docs/first-edition.md say how).
"""

from collections.abc import Mapping

from dph.lab.worlds.correlations import CORRELATIONS
from dph.lab.worlds.table import newest_edition

_SECOND_SQL: Mapping[str, float] = {
    "rkl": 0.3,
    "alpha": 3.0,
    "dph_f": 3.0,
    "dph_js": 3.0,
    "dph_js_definition": 1.0,
    "dph_broad": 0.15,
    "ttrl": 2.0,
    "consensus": 4.0,
    "f_grpo": 1.0,
    "ucpo": 0.5,
    "pass_at_k": 2.0,
    "pkpo": 2.0,
    "differential_smoothing": 0.1,
    "bbg": 4.0,
    "entropy_bonus": 0.03,
    "exact_rkl": 0.3,
    "exact_fkl": 0.3,
    "clip_cov": 0.02,
    "kl_cov": 10.0,
    "dyjr": 1.0,
}

USUAL_STRENGTHS: Mapping[tuple[str, int], Mapping[str, float]] = {
    ("sql", 1): {
        "rkl": 0.03,
        "alpha": 1.0,
        "dph_f": 1.0,
        "dph_js": 1.0,
        "dph_js_definition": 1.0,
    },
    ("sql", 2): _SECOND_SQL,
    **{(task, 1): _SECOND_SQL for task in CORRELATIONS},
    ("countdown", 1): {
        "rkl": 0.03,
        "alpha": 3.0,
        "dph_f": 0.3,
        "dph_js": 0.3,
        "dph_js_definition": 1.0,
        "dph_broad": 0.15,
        "ttrl": 2.0,
        "consensus": 2.0,
        "f_grpo": 1.0,
        "ucpo": 0.2,
        "pass_at_k": 2.0,
        "pkpo": 4.0,
        "differential_smoothing": 0.1,
        "bbg": 4.0,
        "entropy_bonus": 0.03,
        "exact_rkl": 0.1,
        "exact_fkl": 0.1,
        "clip_cov": 0.0002,
        "kl_cov": 1.0,
        "dyjr": 1.0,
    },
}
"""By task and edition; a method that is missing has the strength of its own table.

Hostile text-to-SQL worlds take those of the second edition: nothing was chosen on them."""


def usual_strengths(task: str, edition: int | None = None) -> Mapping[str, float]:
    """Strengths by method [default: on the newest edition]."""
    return USUAL_STRENGTHS.get((task, edition or newest_edition(task)), {})

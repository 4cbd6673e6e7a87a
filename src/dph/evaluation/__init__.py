"""What is measured of a model: Pass@k with intervals, what was kept and found, how many styles.

``dph.evaluation.evaluate.evaluate`` draws and grades; these read and compare what it leaves behind.
"""

from typing import TYPE_CHECKING

# At once: otherwise whoever imports the module of that name puts it in the place of the function.
from dph.evaluation.pass_at_k import pass_at_k
from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.evaluation.comparison import ComparisonRow
    from dph.evaluation.evaluated_runs import compare
    from dph.evaluation.intervals import Difference, bootstrap_mean, paired_difference
    from dph.evaluation.samples_file import read_samples, read_scores
    from dph.evaluation.scores import SetScores
    from dph.evaluation.styles import effective_styles, style_shares

__all__ = [
    "ComparisonRow",
    "Difference",
    "SetScores",
    "bootstrap_mean",
    "compare",
    "effective_styles",
    "paired_difference",
    "pass_at_k",
    "read_samples",
    "read_scores",
    "style_shares",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ComparisonRow": "dph.evaluation.comparison",
        "Difference": "dph.evaluation.intervals",
        "SetScores": "dph.evaluation.scores",
        "bootstrap_mean": "dph.evaluation.intervals",
        "compare": "dph.evaluation.evaluated_runs",
        "effective_styles": "dph.evaluation.styles",
        "paired_difference": "dph.evaluation.intervals",
        "read_samples": "dph.evaluation.samples_file",
        "read_scores": "dph.evaluation.samples_file",
        "style_shares": "dph.evaluation.styles",
    },
)

"""Measurements of a model: Pass@k with intervals, problems kept and found, number of styles.

``dph.runs.evaluate.evaluate.evaluate`` draws and grades; these read and compare what it leaves
behind.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

# Not lazily: importing the module of that name would replace the function by the module.
from dph.runs.evaluate.metrics import pass_at_k

if TYPE_CHECKING:
    from dph.runs.evaluate.comparison import ComparisonRow
    from dph.runs.evaluate.evaluated_runs import compare
    from dph.runs.evaluate.intervals import Difference, bootstrap_mean, paired_difference
    from dph.runs.evaluate.metrics import effective_styles, style_shares
    from dph.runs.evaluate.samples_file import read_samples, read_scores
    from dph.runs.evaluate.scores import SetScores

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
        "ComparisonRow": "dph.runs.evaluate.comparison",
        "Difference": "dph.runs.evaluate.intervals",
        "SetScores": "dph.runs.evaluate.scores",
        "bootstrap_mean": "dph.runs.evaluate.intervals",
        "compare": "dph.runs.evaluate.evaluated_runs",
        "effective_styles": "dph.runs.evaluate.metrics",
        "paired_difference": "dph.runs.evaluate.intervals",
        "read_samples": "dph.runs.evaluate.samples_file",
        "read_scores": "dph.runs.evaluate.samples_file",
        "style_shares": "dph.runs.evaluate.metrics",
    },
)

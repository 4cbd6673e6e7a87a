"""Grading files of answers: rows in, the same rows and their verdicts out, in order.

``GradedRow`` is what a RowGrader returns for each row: a verdict and the seconds it took.
"""

from dph.records import TimedVerdict as GradedRow
from dph.tasks.grading.rows import grade_code, grade_math, grade_sql
from dph.tasks.grading.stream import GradeSummary, RowGrader, grade_file

__all__ = [
    "GradeSummary",
    "GradedRow",
    "RowGrader",
    "grade_code",
    "grade_file",
    "grade_math",
    "grade_sql",
]

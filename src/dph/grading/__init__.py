"""Grading files of answers: rows in, the same rows and their verdicts out, in order."""

from dph.grading.answers import grade_math, grade_sql
from dph.grading.stream import GradedRow, GradeSummary, RowGrader, grade_file

__all__ = ["GradeSummary", "GradedRow", "RowGrader", "grade_file", "grade_math", "grade_sql"]

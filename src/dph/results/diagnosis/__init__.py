"""Losses of a run against its initial policy, by ways of answering, and findings in its log.

``diagnose`` reads two evaluations from disk; docs/guides/diagnosis.md has the equations.
"""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.results.diagnosis.changes import Change, ProblemChange
    from dph.results.diagnosis.log_findings import Finding
    from dph.results.diagnosis.run_diagnosis import Diagnosis, diagnose, diagnosis_document
    from dph.results.diagnosis.set_diagnosis import SetDiagnosis

__all__ = [
    "Change",
    "Diagnosis",
    "Finding",
    "ProblemChange",
    "SetDiagnosis",
    "diagnose",
    "diagnosis_document",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Change": "dph.results.diagnosis.changes",
        "Diagnosis": "dph.results.diagnosis.run_diagnosis",
        "Finding": "dph.results.diagnosis.log_findings",
        "ProblemChange": "dph.results.diagnosis.changes",
        "SetDiagnosis": "dph.results.diagnosis.set_diagnosis",
        "diagnose": "dph.results.diagnosis.run_diagnosis",
        "diagnosis_document": "dph.results.diagnosis.run_diagnosis",
    },
)

"""What a run lost against its initial policy, which ways of answering, and what its log says.

``diagnose`` reads two evaluations from disk; docs/diagnosis.md has the equations.
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.diagnosis.changes import Change, ProblemChange
    from dph.diagnosis.document import diagnosis_document
    from dph.diagnosis.log_findings import Finding
    from dph.diagnosis.run_diagnosis import Diagnosis, diagnose
    from dph.diagnosis.set_diagnosis import SetDiagnosis

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
        "Change": "dph.diagnosis.changes",
        "Diagnosis": "dph.diagnosis.run_diagnosis",
        "Finding": "dph.diagnosis.log_findings",
        "ProblemChange": "dph.diagnosis.changes",
        "SetDiagnosis": "dph.diagnosis.set_diagnosis",
        "diagnose": "dph.diagnosis.run_diagnosis",
        "diagnosis_document": "dph.diagnosis.document",
    },
)

"""The verifier ``code``: programs in Python, graded by unit tests or by what they print."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.verifiers.code.extraction import extract_program
    from dph.verifiers.code.task import CodeTask, parse_task
    from dph.verifiers.code.verifier import CodePair, CodeVerifier

__all__ = [
    "CodePair",
    "CodeTask",
    "CodeVerifier",
    "extract_program",
    "parse_task",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CodePair": "dph.verifiers.code.verifier",
        "CodeTask": "dph.verifiers.code.task",
        "CodeVerifier": "dph.verifiers.code.verifier",
        "extract_program": "dph.verifiers.code.extraction",
        "parse_task": "dph.verifiers.code.task",
    },
)

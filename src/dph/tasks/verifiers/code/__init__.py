"""The verifier ``code``: programs in Python, graded by unit tests or by what they print."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.tasks.verifiers.code.task import CodeTask, extract_program, parse_task
    from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier

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
        "CodePair": "dph.tasks.verifiers.code.verifier",
        "CodeTask": "dph.tasks.verifiers.code.task",
        "CodeVerifier": "dph.tasks.verifiers.code.verifier",
        "extract_program": "dph.tasks.verifiers.code.task",
        "parse_task": "dph.tasks.verifiers.code.task",
    },
)

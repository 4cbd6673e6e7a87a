"""The mathematics verifier ``math``, to train with."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.tasks.verifiers.math.answer import find_answer
    from dph.tasks.verifiers.math.verifier import MathPair, MathVerifier

__all__ = [
    "MathPair",
    "MathVerifier",
    "find_answer",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MathPair": "dph.tasks.verifiers.math.verifier",
        "MathVerifier": "dph.tasks.verifiers.math.verifier",
        "find_answer": "dph.tasks.verifiers.math.answer",
    },
)

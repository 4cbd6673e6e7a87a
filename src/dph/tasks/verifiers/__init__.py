"""Verifiers: what a response is worth. ``make_verifier("sql")``, or your own function by name."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.tasks.verifiers.base import Verifier, verifier_identity
    from dph.tasks.verifiers.code.verifier import CodeVerifier
    from dph.tasks.verifiers.exact import ExactVerifier, NumberVerifier
    from dph.tasks.verifiers.function import FunctionVerifier
    from dph.tasks.verifiers.gym.verifier import GymVerifier
    from dph.tasks.verifiers.math.verifier import MathVerifier
    from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier
    from dph.tasks.verifiers.sql.verifier import SQLVerifier
    from dph.tasks.verifiers.table import VERIFIERS, make_verifier, unknown_verifier

__all__ = [
    "VERIFIERS",
    "CodeVerifier",
    "ExactVerifier",
    "FunctionVerifier",
    "GymVerifier",
    "MathQwenVerifier",
    "MathVerifier",
    "NumberVerifier",
    "SQLVerifier",
    "Verifier",
    "make_verifier",
    "unknown_verifier",
    "verifier_identity",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CodeVerifier": "dph.tasks.verifiers.code.verifier",
        "ExactVerifier": "dph.tasks.verifiers.exact",
        "FunctionVerifier": "dph.tasks.verifiers.function",
        "GymVerifier": "dph.tasks.verifiers.gym.verifier",
        "MathQwenVerifier": "dph.tasks.verifiers.qwen.verifier",
        "MathVerifier": "dph.tasks.verifiers.math.verifier",
        "NumberVerifier": "dph.tasks.verifiers.exact",
        "SQLVerifier": "dph.tasks.verifiers.sql.verifier",
        "VERIFIERS": "dph.tasks.verifiers.table",
        "Verifier": "dph.tasks.verifiers.base",
        "make_verifier": "dph.tasks.verifiers.table",
        "unknown_verifier": "dph.tasks.verifiers.table",
        "verifier_identity": "dph.tasks.verifiers.base",
    },
)

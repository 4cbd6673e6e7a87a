"""Verifiers: what a response is worth. ``make_verifier("sql")``, or your own function by name."""

from dph.tasks.verifiers.base import Verifier, verifier_identity
from dph.tasks.verifiers.function import FunctionVerifier
from dph.tasks.verifiers.table import VERIFIERS, make_verifier, unknown_verifier

__all__ = [
    "VERIFIERS",
    "FunctionVerifier",
    "Verifier",
    "make_verifier",
    "unknown_verifier",
    "verifier_identity",
]

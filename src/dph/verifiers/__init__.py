"""Verifiers: what a response is worth. ``make_verifier("sql")``, or your own function by name."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError
from dph.import_path import is_import_path
from dph.verifiers.base import Verifier, verifier_identity
from dph.verifiers.exact import ExactVerifier
from dph.verifiers.function import FunctionVerifier
from dph.verifiers.math.verifier import MathVerifier
from dph.verifiers.number import NumberVerifier
from dph.verifiers.qwen.verifier import MathQwenVerifier
from dph.verifiers.sql.verifier import SQLVerifier

__all__ = [
    "VERIFIERS",
    "ExactVerifier",
    "FunctionVerifier",
    "MathQwenVerifier",
    "MathVerifier",
    "NumberVerifier",
    "SQLVerifier",
    "Verifier",
    "make_verifier",
    "verifier_identity",
]

VERIFIERS: Mapping[str, Callable[..., Verifier]] = MappingProxyType(
    {
        "sql": lambda *, sql_rule, databases, workers, timeout, **_: SQLVerifier(
            rule=sql_rule, databases=databases, workers=workers, timeout=timeout
        ),
        "math": lambda *, math_phrases, math_any_expression, workers, timeout, **_: MathVerifier(
            phrases=math_phrases,
            any_expression=math_any_expression,
            workers=workers,
            timeout=timeout,
        ),
        "math_qwen": lambda *, workers, timeout, **_: MathQwenVerifier(
            workers=workers, timeout=timeout
        ),
        "number": lambda **_: NumberVerifier(),
        "exact": lambda **_: ExactVerifier(),
    }
)
"""Each verifier's name, and the function that makes it from the settings of ``make_verifier``."""


def make_verifier(
    name: str,
    *,
    databases: Path | None = None,
    workers: int = 1,
    timeout: float = 5.0,
    sql_rule: str = "bird",
    math_phrases: Sequence[str] | None = None,
    math_any_expression: bool = True,
) -> Verifier:
    """The verifier ``name``, or the function that an import path ``module:function`` names.

    Args:
        name: a key of VERIFIERS or an import path.
        databases: where the relative paths of databases start (``sql`` alone).
        workers: number of worker processes (``sql``, ``math``, ``math_qwen`` and functions).
        timeout: seconds for one answer (``sql``, ``math``, ``math_qwen`` and functions).
        sql_rule: when two results are equal, a name of ``dph.verifiers.sql.rules.RULES``
            (``sql`` alone).
        math_phrases: what announces an answer without a box, None for the usual ones (``math``
            alone).
        math_any_expression: whether the last expression counts without either (``math`` alone).

    Raises:
        SettingsError: no verifier has that name, or a setting is out of range.
    """
    settings: dict[str, Any] = {"workers": workers, "timeout": timeout}
    if name in VERIFIERS:
        return VERIFIERS[name](
            databases=databases,
            sql_rule=sql_rule,
            math_phrases=math_phrases,
            math_any_expression=math_any_expression,
            **settings,
        )
    if is_import_path(name):
        return FunctionVerifier(name, **settings)
    known = ", ".join(VERIFIERS)
    raise SettingsError(
        f"there is no verifier {name!r}; it is one of {known}, or your own as 'module:function'"
    )

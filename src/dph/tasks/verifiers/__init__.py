"""Verifiers: what a response is worth. ``make_verifier("sql")``, or your own function by name."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.import_path import is_import_path
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.verifiers.base import Verifier, verifier_identity
from dph.tasks.verifiers.code.verifier import MEMORY_MB, CodeVerifier
from dph.tasks.verifiers.exact import ExactVerifier, NumberVerifier
from dph.tasks.verifiers.function import FunctionVerifier
from dph.tasks.verifiers.gym.verifier import GymVerifier
from dph.tasks.verifiers.math.verifier import MathVerifier
from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier
from dph.tasks.verifiers.sql.verifier import SQLVerifier

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
        "code": lambda *, code_memory_mb, workers, timeout, **_: CodeVerifier(
            workers=workers, timeout=timeout, memory_mb=code_memory_mb
        ),
        "reasoning_gym": lambda *, gym_threshold, workers, timeout, **_: GymVerifier(
            threshold=gym_threshold, workers=workers, timeout=timeout
        ),
        "number": lambda **_: NumberVerifier(),
        "exact": lambda **_: ExactVerifier(),
    }
)
"""Each verifier's name, and the function that makes it from the settings of ``make_verifier``."""


def make_verifier(
    name: str | Callable[[str, Problem], Any],
    *,
    databases: str | Path | None = None,
    workers: int = 1,
    timeout: float = 5.0,
    sql_rule: str = "bird",
    math_phrases: Sequence[str] | None = None,
    math_any_expression: bool = True,
    code_memory_mb: int = MEMORY_MB,
    gym_threshold: float = 1.0,
    modules: Sequence[str | Path] = (),
) -> Verifier:
    """The verifier ``name``, or the function that an import path ``module:function`` names.

    Args:
        name: a key of VERIFIERS, an import path, or the function itself (of a module: worker
            processes import it).
        databases: where the relative paths of databases start (``sql`` alone).
        workers: number of worker processes (not of ``number`` and ``exact``, which have none).
        timeout: seconds for one answer, in ``sql`` for one statement, in ``code`` for one test.
        sql_rule: when two results are equal, a name of ``dph.tasks.verifiers.sql.rules.RULES``
            (``sql`` alone).
        math_phrases: what announces an answer without a box, None for the usual ones (``math``
            alone).
        math_any_expression: whether the last expression counts without either (``math`` alone).
        code_memory_mb: address space of a program, in units of 10^6 bytes (``code`` alone).
        gym_threshold: the least score of a right answer (``reasoning_gym`` alone).
        modules: directories in which a function's module is looked for first.

    Raises:
        SettingsError: no verifier has that name, the function cannot be imported by another
            process, or a setting is out of range.
    """
    settings: dict[str, Any] = {"workers": workers, "timeout": timeout}
    if isinstance(name, str) and name in VERIFIERS:
        return VERIFIERS[name](
            databases=None if databases is None else Path(databases),
            sql_rule=sql_rule,
            math_phrases=math_phrases,
            math_any_expression=math_any_expression,
            code_memory_mb=code_memory_mb,
            gym_threshold=gym_threshold,
            **settings,
        )
    if unknown := unknown_verifier(name):
        raise SettingsError(unknown)
    return FunctionVerifier(name, directories=[Path(each) for each in modules], **settings)


def unknown_verifier(name: object) -> str:
    """Message about a verifier's name; '' for a known one, an import path and a function.

    >>> unknown_verifier("sqll")[:54]
    "there is no verifier 'sqll'; did you mean 'sql'? It is"
    """
    known = ", ".join(VERIFIERS)
    if callable(name):
        return ""
    if not isinstance(name, str):
        return (
            f"a verifier is one of {known}, or your own function, got {name!r:.80} "
            f"({type(name).__name__})"
        )
    if name in VERIFIERS or is_import_path(name):
        return ""
    near = difflib.get_close_matches(name, VERIFIERS, n=1)
    hint = f"did you mean {near[0]!r}? It" if near else "it"
    return (
        f"there is no verifier {name!r}; {hint} is one of {known}, or your own as 'module:function'"
    )

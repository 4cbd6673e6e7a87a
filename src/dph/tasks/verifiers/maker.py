"""A verifier from its name, or from a function of one's own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.function import FunctionVerifier
from dph.tasks.verifiers.table import VERIFIERS, unknown_verifier, verifier_settings


def make_verifier(
    name: str | Callable[[str, Problem], Any],
    *,
    databases: str | Path | None = None,
    workers: int = 1,
    timeout: float = 5.0,
    modules: Sequence[str | Path] = (),
    **settings: Any,
) -> Verifier:
    """The verifier ``name``, or the function that an import path ``module:function`` names.

    Args:
        name: a key of VERIFIERS, an import path, or the function itself (of a module: worker
            processes import it).
        databases: where the relative paths of databases start (``sql`` alone).
        workers: number of worker processes (not of ``number`` and ``exact``, which have none).
        timeout: seconds for one answer, in ``sql`` for one statement, in ``code`` for one test.
        modules: directories in which a function's module is looked for first.
        settings: those of the rows of VERIFIERS, by their keys in a recipe's ``[data]``:
            ``sql_rule``, ``math_phrases``, ``code_memory_mb`` ... Each verifier takes its own and
            leaves those of others alone.

    Raises:
        SettingsError: no verifier has that name, the function cannot be imported by another
            process, no verifier has a setting of that name, or one is out of range.
    """
    known = verifier_settings()
    if wrong := [key for key in settings if key not in known]:
        raise SettingsError(f"no verifier has a setting {wrong[0]!r}; there are {', '.join(known)}")
    if isinstance(name, str) and name in VERIFIERS:
        row = VERIFIERS[name]
        shared = {
            "databases": None if databases is None else Path(databases),
            "workers": workers,
            "timeout": timeout,
        }
        own = {row.settings[key].argument: settings[key] for key in row.settings if key in settings}
        made: Verifier = resolve_name(row.path)(**{key: shared[key] for key in row.takes}, **own)
        return made
    if unknown := unknown_verifier(name):
        raise SettingsError(unknown)
    return FunctionVerifier(
        name, directories=[Path(each) for each in modules], workers=workers, timeout=timeout
    )

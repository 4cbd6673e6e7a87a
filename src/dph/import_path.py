"""Naming a function of the user's own code by its import path, ``module:function``."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dph.errors import SettingsError


def is_import_path(name: str) -> bool:
    """Whether ``name`` has the form ``module:function``.

    >>> is_import_path("my_task:grade"), is_import_path("sql")
    (True, False)
    """
    module, colon, function = name.partition(":")
    return bool(colon) and all(
        part.isidentifier() for part in (*module.split("."), *function.split("."))
    )


def load_callable(path: str) -> Callable[..., Any]:
    """Import the module of ``module:function`` and return the function.

    The current directory is searched after everything else, so that a module beside the recipe
    is found and cannot shadow an installed one.

    Raises:
        SettingsError: the form is wrong, the module cannot be imported, or it holds no such
            callable.
    """
    if not is_import_path(path):
        raise SettingsError(f"an import path looks like 'module:function', got {path!r}")
    module_name, _, attribute = path.partition(":")
    _search_current_directory()
    try:
        target: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        # Whatever the module's own code raises, the user has to hear of it as a setting.
        raise SettingsError(
            f"cannot import {module_name!r} for {path!r}: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise SettingsError(f"{module_name!r} has no {attribute!r} (wanted {path!r})")
        target = getattr(target, part)
    if not callable(target):
        raise SettingsError(f"{path!r} is not callable, it is a {type(target).__name__}")
    found: Callable[..., Any] = target
    return found


def source_fingerprint(module_name: str) -> str:
    """The beginning of the SHA-256 of a module's file, or '' where there is no such file.

    It tells apart versions of a user's own code, as far as the code is in that one file.

    >>> len(source_fingerprint("json.decoder")), source_fingerprint("builtins")
    (12, '')
    """
    file = source_file(module_name)
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file else ""


def source_file(module_name: str) -> Path | None:
    """The file that a module would be imported from, or None where there is no such file.

    >>> source_file("json.decoder").name, source_file("builtins")
    ('decoder.py', None)
    """
    _search_current_directory()
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):  # no such package, or a module without a spec
        return None
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    return Path(spec.origin)


def _search_current_directory() -> None:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)

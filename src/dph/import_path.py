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


def import_path_of(function: Callable[..., Any]) -> str:
    """The import path by which another process finds a function of a module.

    >>> from json import dumps
    >>> import_path_of(dumps)
    'json:dumps'

    Raises:
        SettingsError: it is a lambda, a function inside another one, an object, or its module is
            no file that could be imported (a notebook, the prompt).
    """
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        raise SettingsError(
            f"{function!r:.80} ({type(function).__name__}) has no import path: "
            "give a function that a module defines by its name, or its path 'module:function'"
        )
    if "<" in name:  # <lambda>, <locals>
        kind = "a lambda" if name.endswith("<lambda>") else "a function inside another one"
        raise SettingsError(
            f"{module}:{name} is {kind}, which no other process can import; "
            "define it by its name at the top level of a module"
        )
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found != function:  # a bound method is another object each time, but equal
        raise SettingsError(
            f"{module}:{name} is not {function!r:.80}: only what a module holds under its own "
            "name can be imported by another process"
        )
    return f"{_importable_name(module)}:{name}"


def _importable_name(module: str) -> str:
    """A module's name for other processes: the script that is being run has one, too."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    if file is not None:
        found = source_file(Path(file).stem)
        if found is not None and found.resolve() == Path(file).resolve():
            return Path(file).stem
    where = f"the script {file}, which" if file else "the prompt or a notebook, which"
    raise SettingsError(
        f"the function is defined in {where} other processes cannot import; "
        "write it to a file such as my_task.py, import it from there, or name it 'my_task:grade'"
    )


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

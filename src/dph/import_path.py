"""Naming a function of the user's own code by its import path, ``module:function``.

Where the code lies is said beside the name, by the directories that are searched for it first, so
that the same name means the same file from every working directory.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dph.errors import SettingsError

_added: list[Path] = []
"""Directories of own code that this module has put on the search path of the process."""


def is_import_path(name: str) -> bool:
    """Whether ``name`` has the form ``module:function``.

    >>> is_import_path("my_task:grade"), is_import_path("sql")
    (True, False)
    """
    module, colon, function = name.partition(":")
    return bool(colon) and all(
        part.isidentifier() for part in (*module.split("."), *function.split("."))
    )


def module_file(module_name: str, directory: Path) -> Path | None:
    """The file of a module or package that lies in ``directory``; None where there is none."""
    stem = directory.joinpath(*module_name.split("."))
    for file in (stem / "__init__.py", stem.parent / f"{stem.name}.py"):
        if file.is_file():
            return file.resolve()
    return None


def load_callable(path: str, directories: Sequence[Path] = ()) -> Callable[..., Any]:
    """Import the module of ``module:function`` and return the function.

    ``directories`` are searched first (see ``search_in``).

    Raises:
        SettingsError: the form is wrong, the module cannot be imported, another module of its
            name is in use, or it holds no such callable.
    """
    if not is_import_path(path):
        raise SettingsError(f"an import path looks like 'module:function', got {path!r}")
    module_name, _, attribute = path.partition(":")
    require_one_module(path, directories)
    try:
        _import_top(module_name, directories)
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


def search_in(directories: Sequence[Path]) -> None:
    """Search for the user's own code in ``directories``, and no longer where it was before.

    They come after everything else on Python's search path, so that nothing in them shadows an
    installed module by accident; without any it is the current directory. What was imported from
    the places before is forgotten: another recipe's module may have the same name.
    """
    wanted = [directory.resolve() for directory in directories or [Path.cwd()]]
    for place in [place for place in _added if place not in wanted]:
        _added.remove(place)
        sys.path[:] = [entry for entry in sys.path if entry != str(place)]
        for name in [name for name in sys.modules if "." not in name and _lies_in(name, place)]:
            for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
                del sys.modules[module]
    for place in wanted:
        if str(place) not in sys.path and not (place == Path.cwd() and "" in sys.path):
            sys.path.append(str(place))
            _added.append(place)
    importlib.invalidate_caches()


def require_one_module(path: str, directories: Sequence[Path]) -> None:
    """Search in ``directories``; refuse a module that could be taken for another of its name.

    Raises:
        SettingsError: this process uses another module of that name, or there is one in the
            current directory only, although directories were named.
    """
    search_in(directories)
    module_name = path.partition(":")[0]
    top = module_name.partition(".")[0]
    directory = _directory_of(module_name, directories)
    if directory is not None:
        wanted = module_file(top, directory) or directory.resolve() / top
        if top in sys.modules and (used := _place(top)) != wanted:
            raise SettingsError(
                f"{path!r} means {wanted}, but this process has already imported another {top!r}, "
                f"{used or 'a built-in module'}: give yours another name"
            )
    elif directories and top not in sys.modules and _lies_in(top, Path.cwd()):
        named = ", ".join(map(str, directories))
        raise SettingsError(
            f"cannot import {module_name!r} for {path!r}: it is not in {named}, only in the "
            f"working directory ({_place(top)}); name that in data.modules if it is meant"
        )


def source_fingerprint(module_name: str, directories: Sequence[Path] = ()) -> str:
    """The beginning of the SHA-256 of a module's file, or '' where there is no such file.

    It tells apart versions of a user's own code, as far as the code is in that one file.

    >>> len(source_fingerprint("json.decoder")), source_fingerprint("builtins")
    (12, '')
    """
    file = _file_of(module_name, directories)
    return "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:12]


def _file_of(module_name: str, directories: Sequence[Path]) -> Path | None:
    directory = _directory_of(module_name, directories)
    if directory is not None:
        return module_file(module_name, directory)
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):  # no such package, or a module without a spec
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _directory_of(module_name: str, directories: Sequence[Path]) -> Path | None:
    return next((d for d in directories if module_file(module_name, d) is not None), None)


def _import_top(module_name: str, directories: Sequence[Path]) -> None:
    """Import a module of the directories, also if the search path holds another of its name."""
    name = module_name.partition(".")[0]
    directory = _directory_of(module_name, directories)
    file = None if directory is None else module_file(name, directory)
    if name in sys.modules or file is None:
        return
    inside = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules[name])
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _lies_in(top: str, directory: Path) -> bool:
    place = _place(top)
    if place is None:
        return False
    root = place.parent.parent if place.name == "__init__.py" else place.parent
    return root == directory.resolve()


def _place(top: str) -> Path | None:
    """Where the module ``top`` lies that is imported or would be; None for one without a file."""
    module = sys.modules.get(top)
    if module is not None:
        file, inside = getattr(module, "__file__", None), list(getattr(module, "__path__", ()))
    else:
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        file = spec.origin if spec and spec.has_location else None
        inside = list(spec.submodule_search_locations or ()) if spec else []
    found = file or next(iter(inside), None)
    return Path(found).resolve() if found else None

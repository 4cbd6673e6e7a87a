"""Import paths (``module:function``) of user code, and names that packages load lazily.

The directories to search first are given separately, so that a name means the same file from every
working directory.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph.errors import SettingsError

_added_paths: list[Path] = []
"""Directories of user code that this module has added to ``sys.path``."""


def is_import_path(name: str) -> bool:
    """True if ``name`` has the form ``module:function``.

    >>> is_import_path("my_task:grade"), is_import_path("sql")
    (True, False)
    """
    module, colon, function = name.partition(":")
    return bool(colon) and all(
        part.isidentifier() for part in (*module.split("."), *function.split("."))
    )


def module_file(module_name: str, directory: Path) -> Path | None:
    """The file of a module or package in ``directory``; None if there is none."""
    stem = directory.joinpath(*module_name.split("."))
    for file in (stem / "__init__.py", stem.parent / f"{stem.name}.py"):
        if file.is_file():
            return file.resolve()
    return None


def load_callable(path: str, directories: Sequence[Path] = ()) -> Callable[..., Any]:
    """Import the module of ``module:function`` and return the function.

    ``directories`` are searched first (see ``search_in``).
    """
    if not is_import_path(path):
        raise SettingsError(f"an import path looks like 'module:function', got {path!r}")
    module_name, _, attribute = path.partition(":")
    require_one_module(path, directories)
    try:
        _import_top(module_name, directories)
        target: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        # Report any exception from the user's module as an error in the setting.
        raise SettingsError(
            f"cannot import {module_name!r} for {path!r}: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise SettingsError(f"{module_name!r} has no {attribute!r} (looking for {path!r})")
        target = getattr(target, part)
    if not callable(target):
        raise SettingsError(f"{path!r} is not callable, it is a {type(target).__name__}")
    found: Callable[..., Any] = target
    return found


def import_path_of(function: Callable[..., Any]) -> str:
    """The path by which another process can import a function.

    >>> from json import dumps
    >>> import_path_of(dumps)
    'json:dumps'
    """
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        raise SettingsError(
            f"{function!r:.80} ({type(function).__name__}) has no import path: "
            "pass a function that a module defines by name, or its path 'module:function'"
        )
    if "<" in name:  # <lambda>, <locals>
        kind = "a lambda" if name.endswith("<lambda>") else "a nested function"
        raise SettingsError(
            f"{module}:{name} is {kind}, which other processes cannot import; define a named "
            f"function at the top level of a module"
        )
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found != function:  # each access makes a new bound method, equal to the others
        raise SettingsError(
            f"{module}:{name} is not {function!r:.80}: other processes can import a "
            f"function only by the name that its module gives it"
        )
    return f"{_importable_name(module)}:{name}"


def _importable_name(module: str) -> str:
    """The name by which other processes can import a module, including the running script."""
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
        "move it to a file such as my_task.py and import it from there, or pass 'my_task:grade'"
    )


def search_in(directories: Sequence[Path]) -> None:
    """Search for user code in ``directories``, and no longer in those of earlier calls.

    They come last on ``sys.path``, so that nothing in them accidentally shadows an installed
    module. If there are none, search the current directory. Modules from directories of earlier
    calls are unloaded, because another recipe's module may have the same name.
    """
    resolved = [directory.resolve() for directory in directories or [Path.cwd()]]
    for place in [place for place in _added_paths if place not in resolved]:
        _added_paths.remove(place)
        sys.path[:] = [entry for entry in sys.path if entry != str(place)]
        for name in [name for name in sys.modules if "." not in name and _is_in(name, place)]:
            for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
                del sys.modules[module]
    for place in resolved:
        if str(place) not in sys.path and not (place == Path.cwd() and "" in sys.path):
            sys.path.append(str(place))
            _added_paths.append(place)
    importlib.invalidate_caches()


def require_one_module(path: str, directories: Sequence[Path]) -> None:
    """Search in ``directories``; refuse a module that could be confused with a namesake."""
    search_in(directories)
    module_name = path.partition(":")[0]
    top = module_name.partition(".")[0]
    directory = _directory_of(module_name, directories)
    if directory is not None:
        expected = module_file(top, directory) or directory.resolve() / top
        if top in sys.modules and (loaded := _module_path(top)) != expected:
            raise SettingsError(
                f"{path!r} means {expected}, but this process has already imported a different "
                f"{top!r}, {loaded or 'a built-in module'}: rename your module"
            )
    elif directories and top not in sys.modules and _is_in(top, Path.cwd()):
        named = ", ".join(map(str, directories))
        raise SettingsError(
            f"cannot import {module_name!r} for {path!r}: it is not in {named}, only in the "
            f"working directory ({_module_path(top)}); add that to data.modules if you meant it"
        )


def source_fingerprint(module_name: str, directories: Sequence[Path] = ()) -> str:
    """The first 12 hex digits of the SHA-256 of a module's file, or '' if there is no such file.

    Distinguishes versions of user code, as far as they differ in that one file.

    >>> len(source_fingerprint("json.decoder")), source_fingerprint("builtins")
    (12, '')
    """
    file = source_file(module_name, directories)
    return "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:12]


def code_fingerprint(function: Callable[..., Any]) -> str:
    """The fingerprint of the file that defines a function or an object's class; '' if none."""
    holder = function if inspect.isroutine(function) else type(function)
    try:
        file = inspect.getsourcefile(holder)
    except TypeError:  # a built-in class, or one whose module is no longer imported
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] if file else ""


def source_file(module_name: str, directories: Sequence[Path] = ()) -> Path | None:
    """The file that a module would be imported from, or None if there is no such file.

    >>> source_file("json.decoder").name, source_file("builtins")
    ('decoder.py', None)
    """
    directory = _directory_of(module_name, directories)
    if directory is not None:
        return module_file(module_name, directory)
    search_in(directories)
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):  # no such package, or a module without a spec
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _directory_of(module_name: str, directories: Sequence[Path]) -> Path | None:
    return next((d for d in directories if module_file(module_name, d) is not None), None)


def _import_top(module_name: str, directories: Sequence[Path]) -> None:
    """Import a module from ``directories``, even if ``sys.path`` has another of that name."""
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


def _is_in(top: str, directory: Path) -> bool:
    place = _module_path(top)
    if place is None:
        return False
    root = place.parent.parent if place.name == "__init__.py" else place.parent
    return root == directory.resolve()


def _module_path(top: str) -> Path | None:
    """Path of the top-level module ``top``, imported or not; None if it has no file."""
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


def search_path() -> str:
    """PYTHONPATH with which a child process finds exactly the modules that this one finds."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)


_NOT_EXPORTED = {"TYPE_CHECKING", "lazy_names"}
"""Names that a package with lazy names (PEP 562) imports for its own use."""


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that loads its names lazily.

    ``modules`` maps each name to its defining module, or, for a submodule, to its full name. A
    package repeats these imports under ``TYPE_CHECKING``, for type checkers and editors.

    >>> find, names = lazy_names("json", {"JSONDecoder": "json.decoder"})
    >>> find("JSONDecoder").__name__
    'JSONDecoder'
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        is_module = modules[name].endswith(f".{name}") and not hasattr(module, name)
        value = module if is_module else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules} - _NOT_EXPORTED)

    return find, names

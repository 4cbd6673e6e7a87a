"""Names that a package offers and loads only when they are asked for (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

_NOT_OFFERED = {"TYPE_CHECKING", "lazy_names"}
"""Names that every such package imports for its own use."""


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names are in the modules given.

    ``modules`` says for each name the module that defines it, or that it is. A package repeats
    these imports under ``TYPE_CHECKING``, for type checkers and editors.

    >>> find, names = lazy_names("json", {"JSONDecoder": "json.decoder"})
    >>> find("JSONDecoder").__name__
    'JSONDecoder'
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        is_name = modules[name].endswith(f".{name}") and not hasattr(module, name)
        value = module if is_name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules} - _NOT_OFFERED)

    return find, names

"""``dph.corpus``, the former name of the package ``dph_corpus``: its modules under both names."""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

if find_spec("dph_corpus") is None:
    raise ModuleNotFoundError(
        "dph.corpus is the package dph-corpus: in a checkout of the repository, pip install . "
        "./corpus",
        name="dph_corpus",
    )

__path__: list[str] = []
"""Submodules are found by ``_Renamed`` alone."""


class _Renamed(MetaPathFinder, Loader):
    """Finds ``dph.corpus.x``: it is the module ``dph_corpus.x``, loaded once."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"dph_corpus{spec.name.removeprefix(__name__)}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state


sys.meta_path.insert(0, _Renamed())


def __getattr__(name: str) -> Any:
    return getattr(import_module("dph_corpus"), name)

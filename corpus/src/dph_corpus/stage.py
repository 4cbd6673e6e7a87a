"""A stage: a pure function of a document, and the outcome of each document in it.

A stage is named by the import path of a factory. A worker calls ``factory(settings)`` once and the
stage that comes back for every document of its shards; nothing but the settings and the document
may decide the outcome. So shards can be done in any order, by any process, again after a kill.

    def make_shouting(settings: Mapping[str, Any]) -> DocumentStage: ...

    StageSpec(name="shout", entry="my_module:make_shouting", settings={"preset": "loud"})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol

import pyarrow as pa

from dph._base.provenance import install_command
from dph.errors import SettingsError
from dph_corpus.documents import Document


def require(packages: Mapping[str, str], verb: str, *, extra: str) -> None:
    """Make sure that ``packages``, by module, of the extra of that name are installed."""
    missing = [name for module, name in packages.items() if find_spec(module) is None]
    if missing:
        command = install_command(extra, "dph-corpus")
        raise SettingsError(f"dph-corpus {verb} needs {', '.join(missing)}: {command}")


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a document was dropped.

    ``reason`` is a short name that is counted: a rule, ``exact``, ``time``. ``value`` and
    ``threshold`` are what was compared; ``kept_id`` is the document that stays in its place.
    """

    reason: str
    value: float | None = None
    threshold: str = ""
    kept_id: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """Outcome of a document: kept (perhaps changed, under the same id), or dropped.

    Args:
        document: what is kept; None if it is dropped.
        drops: every reason for dropping it, the deciding one first; empty if it is kept.
        rows: rows for the stage's own tables, by their names.
        counts: what the report adds up, by name.
    """

    document: Document | None
    drops: Sequence[Drop] = ()
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.document is None) != bool(self.drops):
            raise ValueError("a document is either kept or dropped for a reason")


class DocumentStage(Protocol):
    """Result of the factory of a stage."""

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The stage's own tables; each becomes ``<name>.parquet`` next to the documents."""
        ...

    def __call__(self, document: Document) -> DocumentOutcome:
        """Outcome of ``document``.

        An exception is a fault of the stage and stops it: what a file can do (not parse, nest too
        deeply) is an outcome. A document over ``StageSpec.seconds``, or one that takes its worker
        along, is dropped for ``time`` or ``crash`` by whoever runs the stage.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """A stage and all that its results depend on.

    Args:
        name: the verb that runs it.
        entry: ``module:factory``.
        settings: JSON; the factory gets them.
        version: counts up when the same settings give other results.
        inputs: digests of other files that the results depend on, by name.
        files: where such files lie; the factory gets their paths as the setting ``files``. A
            manifest names their digests alone, so each of them is one of ``inputs``, too.
        seconds: time limit for one document.
    """

    name: str
    entry: str
    settings: Mapping[str, Any]
    version: int = 1
    inputs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if missing := set(self.files) - set(self.inputs):
            raise ValueError(f"digests are missing for the files {sorted(missing)}")

    def given(self) -> dict[str, Any]:
        """Arguments of the factory."""
        return dict(self.settings) | ({"files": dict(self.files)} if self.files else {})

    def key(self) -> dict[str, Any]:
        """Identity of a run of the stage, as JSON; time limits and places are left out."""
        return {
            "stage": self.name,
            "version": self.version,
            "settings": dict(self.settings),
            "inputs": dict(self.inputs),
        }

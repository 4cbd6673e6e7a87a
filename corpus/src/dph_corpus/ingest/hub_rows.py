"""Rows of data sets on the Hugging Face Hub: streamed, or where it is not reached from the cache.

An input is named ``hf://datasets/<owner>/<name>[@<revision>][?config=<name>&split=<name>]``, as in
huggingface_hub's file system; without a split it is ``train``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from dph.errors import DataError, SettingsError
from dph_corpus.documents import Document
from dph_corpus.ingest.reading import Skip, row_columns, row_document

READING_HUB = {"datasets": "datasets"}
"""Packages that read data sets of the Hub, by module."""
SPELLING = "hf://datasets/<owner>/<name>[@<revision>][?config=<name>&split=<name>]"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_INPUT = re.compile(  # a path has lost one of the slashes
    rf"hf:/{{1,2}}datasets/(?P<owner>{_NAME})/(?P<name>{_NAME})(?:@(?P<revision>[^?@]+))?"
    r"(?:\?(?P<query>.+))?"
)


def names_hub(text: str | Path) -> bool:
    """Whether an input begins like a name on the Hub and is therefore no path."""
    return str(text).startswith("hf:/")


@dataclass(frozen=True, slots=True)
class HubRows:
    """A split of a data set at a revision; None is the main branch, or the only configuration."""

    owner: str
    name: str
    revision: str | None = None
    config: str | None = None
    split: str = "train"

    @classmethod
    def of(cls, text: str | Path) -> "HubRows":
        """The rows that an input names."""
        found = _INPUT.fullmatch(str(text))
        query = parse_qsl(found["query"] or "", keep_blank_values=True) if found else []
        chosen = dict(query)
        fit = set(chosen) <= {"config", "split"} and len(chosen) == len(query)
        if found is None or not fit or not re.fullmatch(r"\w[\w.-]*", chosen.get("split", "train")):
            raise SettingsError(f"rows on the Hub must be named {SPELLING}, got {str(text)!r}")
        revision = found["revision"] and unquote(found["revision"])
        return cls(found["owner"], found["name"], revision, **chosen)

    @property
    def repository(self) -> str:
        """Name of the repository."""
        return f"{self.owner}/{self.name}"

    def at(self, revision: str) -> str:
        """Name of the same rows at another revision."""
        chosen = f"config={self.config}&" if self.config else ""
        return f"hf://datasets/{self.repository}@{revision}?{chosen}split={self.split}"

    def load(self, *, streaming: bool) -> Any:
        """The rows as datasets has them."""
        try:
            return import_module("datasets").load_dataset(
                self.repository,
                self.config,
                split=self.split,
                revision=self.revision,
                streaming=streaming,
            )
        except (OSError, ValueError, LookupError) as error:
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DataError(f"{self.at(self.revision or 'main')}: {line}") from error


@dataclass(frozen=True, slots=True)
class HubPieces:
    """Pieces of a data set that are read one at a time."""

    version: str
    pinned: str
    pieces: Sequence[str]


def hub_pieces(text: str | Path) -> HubPieces:
    """The pieces that an input names, of the Hub or else of the cache."""
    of = HubRows.of(text)
    if (commit := _commit(of)) is None:
        files = sorted(each["filename"] for each in of.load(streaming=False).cache_files)
        return HubPieces("", of.at(of.revision or "main"), files)
    pinned = of.at(commit)
    count = HubRows.of(pinned).load(streaming=True).num_shards
    version = f"{commit} {of.config or ''} {of.split}"
    return HubPieces(version, pinned, [f"{index}/{count}" for index in range(count)])


def _commit(of: HubRows) -> str | None:
    """The commit that the Hub is at; None where it is not reached."""
    hub, errors = import_module("huggingface_hub"), import_module("huggingface_hub.errors")
    transport = errors.HfHubHTTPError.__mro__[1]  # of the HTTP library that it is built on
    try:
        found: str = hub.HfApi().dataset_info(of.repository, revision=of.revision).sha
    except errors.HfHubHTTPError as error:
        line = str(error).strip().splitlines()[0]
        raise DataError(f"{of.at(of.revision or 'main')}: {line}") from error
    except (errors.OfflineModeIsEnabled, transport, OSError):
        return None
    return found


def hub_documents(
    name: str, piece: str, label: str, facts: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Document | Skip]:
    """The documents of one piece of a stream; only columns that documents have are read."""
    index, _, count = piece.partition("/")
    rows = HubRows.of(name).load(streaming=True)
    if fit := [each for each in rows.column_names or () if each in row_columns(columns)]:
        rows = rows.select_columns(fit)
    for number, row in enumerate(rows.shard(num_shards=int(count), index=int(index)), 1):
        yield row_document(row, f"piece {piece}, row {number}", label, facts, columns)

"""What a source distribution says of itself: its licence, where it lives, when it was made."""

from collections.abc import Iterator
from email.parser import BytesHeaderParser
from email.policy import compat32
from pathlib import Path
from typing import Any

from dph.corpus.ingest.archives import archive_files
from dph.corpus.ingest.reading import RawFile

_LONGEST_LICENCE = 60
"""Characters; some put the whole text where its name belongs."""


def distribution_facts(path: Path, name: str) -> dict[str, Any]:
    """Licence and URL by the ``PKG-INFO`` of a source distribution; {} where there is none."""
    for file in archive_files(path, name):
        if isinstance(file, RawFile) and file.path == "PKG-INFO":
            return dict(_facts(file.data))
    return {}


def _facts(data: bytes) -> Iterator[tuple[str, str]]:
    headers = BytesHeaderParser(policy=compat32).parsebytes(data)

    def first(*names: str) -> str:
        values = (str(headers[name]).strip() for name in names if headers[name] is not None)
        return next((value for value in values if value and value != "UNKNOWN"), "")

    licence = first("License-Expression", "License")
    if licence and len(licence) <= _LONGEST_LICENCE and "\n" not in licence:
        yield "licence", licence
    places = [str(value).partition(", ")[2] for value in headers.get_all("Project-URL") or ()]
    if url := first("Home-Page") or next(iter(places), ""):
        yield "url", url

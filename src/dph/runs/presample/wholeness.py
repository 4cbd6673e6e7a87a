"""Whether what was written is still there: files against their SHA-256, a manifest by its form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dph._base.files import sha256
from dph.errors import PoolError

Record = TypeVar("Record", bound=BaseModel)


def require_files_whole(path: Path, files: Mapping[str, str], *, what: str) -> None:
    """Compare the files of a pool or a store with their hashes.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    for name, expected in files.items():
        file = path / name
        if file.is_file() and sha256(file) == expected:
            continue
        how = "is not the file that was written (SHA-256 differs)" * file.is_file()
        raise PoolError(
            f"the {what} {path} is damaged: {name} {how or 'is missing'}; remove the {what} and "
            "pre-sample again"
        )


def validated(kind: type[Record], content: Any, path: Path) -> Record:
    """The manifest that ``path`` holds.

    Raises:
        PoolError: it lacks something, or says what cannot be; the first such key is named.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise PoolError(f"{path} is damaged: {key}: {first['msg']}") from error

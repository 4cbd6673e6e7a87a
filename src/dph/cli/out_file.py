"""The file that ``--out`` names, before anything is computed for it."""

from pathlib import Path


def require_out_file(out: Path) -> None:
    """Refuse a file that could not be written.

    Raises:
        DataError: it is a directory, or its directory is missing or cannot be written.
    """
    from dph.cli.request import require_writable
    from dph.errors import DataError

    if out.is_dir():
        raise DataError(f"--out names a directory, {out}; it is the file to write")
    if not out.absolute().parent.is_dir():
        raise DataError(f"there is no directory {out.absolute().parent} to write {out.name} into")
    require_writable(out.absolute().parent)

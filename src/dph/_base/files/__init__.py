"""Files: written whole or not at all, held by one process, read row by row, kept in parts.

What every other package needs stands here. ``dph._base.files.rows`` and ``dph._base.files.parts``
are imported by their own names, because they load pyarrow.
"""

from dph._base.files.atomic import (
    atomic_file,
    atomic_path,
    held,
    make_directory,
    only_writer,
    read_json,
    require_other_file,
    sha256,
    write_json,
    write_json_lines,
    write_text,
)

__all__ = [
    "atomic_file",
    "atomic_path",
    "held",
    "make_directory",
    "only_writer",
    "read_json",
    "require_other_file",
    "sha256",
    "write_json",
    "write_json_lines",
    "write_text",
]

"""The parts of a table put together as one file."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from dph._base.files import atomic_file
from dph.corpus.tables import TableWriter, read_table


def join_parts(parts: Sequence[Path], target: Path, schema: pa.Schema) -> None:
    """Write the rows of ``parts``, in that order, to ``target``.

    Row groups are cut anew, so the bytes do not depend on how the rows were cut into parts.

    Raises:
        DataError: a part cannot be read.
    """
    with atomic_file(target) as temporary, TableWriter(temporary, schema) as table:
        for part in parts:
            for row in read_table(part):
                table.write(row)

"""A labelled slice of the pages: what recall and precision of a round are measured on."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from dph._base.files.rows import read_rows
from dph.errors import DataError

_LABELS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class Measured(NamedTuple):
    """Of the labelled pages; None where it would divide by 0."""

    recall: float | None
    precision: float | None


def read_labels(path: Path) -> dict[str, bool]:
    """The labels (``relevant``) of pages by their ``id``.

    Raises:
        DataError: it cannot be read, an id is there twice, or a label is neither true nor false.
    """
    labels: dict[str, bool] = {}
    for place, row in read_rows(path, columns=["id", "relevant"]):
        label = _LABELS.get(str(row["relevant"]).strip().lower())
        if label is None:
            raise DataError(f"{place}: relevant must be true or false, got {row['relevant']!r}")
        if row["id"] in labels:
            raise DataError(f"{place}: the id {row['id']!r} is there twice")
        labels[row["id"]] = label
    return labels


def measure(labels: Mapping[str, bool], recalled: Collection[str]) -> Measured:
    """Recall and precision of ``recalled`` among the labelled pages.

    >>> measure({"a": True, "b": True, "c": False}, {"a", "c", "d"})
    Measured(recall=0.5, precision=0.5)
    """
    found = sum(label for name, label in labels.items() if name in recalled)
    relevant, named = sum(labels.values()), sum(name in recalled for name in labels)
    return Measured(found / relevant if relevant else None, found / named if named else None)

"""Spider 1.0 (Yu et al. 2018, arXiv:1809.08887) from its official files or from parquet.

Official: ``train_spider.json``, ``train_others.json``, ``dev.json``, ``tables.json`` and the
directory ``database/``.
Parquet: ``train.parquet``, ``dev.parquet`` (``id``, ``db_id``, ``question``, ``gold_sql``).
"""

from pathlib import Path

from dph.errors import SettingsError
from dph.tasks.sql.questions import (
    SQLSplit,
    first_that_exists,
    require_layout,
    to_questions,
)

SPIDER_SPLITS = ("train", "dev")

_FILES = {
    "train": ("train_spider.json", "train.parquet"),
    "dev": ("dev.json", "dev.parquet"),
}


def load_spider(directory: Path, split: str) -> SQLSplit:
    """The questions of a split, with ids ``spider-train-0``, ``spider-dev-0`` and so on.

    The official training set is ``train_spider.json`` and after it ``train_others.json``, where
    it is there.

    Raises:
        SettingsError: there is no such split.
        DataError: the directory holds neither layout, or a row lacks a field.
    """
    if split not in SPIDER_SPLITS:
        raise SettingsError(f"Spider's splits are {', '.join(SPIDER_SPLITS)}, got {split!r}")
    file = require_layout(directory, _FILES[split], f"questions of Spider's {split} set")
    prefix = f"spider-{split}"
    questions = to_questions(file, prefix=prefix, gold_field="query", number_field="id")
    others = directory / "train_others.json"
    if file.name == "train_spider.json" and others.is_file():
        questions += to_questions(
            others, prefix=prefix, gold_field="query", number_field="id", start=len(questions)
        )
    return SQLSplit(
        questions=questions,
        databases=first_that_exists(directory, ("database",), test=Path.is_dir),
        tables=first_that_exists(directory, ("tables.json",)),
    )

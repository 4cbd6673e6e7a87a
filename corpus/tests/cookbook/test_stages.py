from importlib import import_module
from pathlib import Path

import pytest

from corpus.tests.cookbook.small_world import make
from dph.errors import SettingsError
from dph.runs.progress import Silent
from dph_corpus.cookbook.settings import Cookbook
from dph_corpus.cookbook.stages import STAGES, Pipeline


def test_every_row_names_a_function_that_is_there():
    for stage in STAGES:
        module, _, function = stage.entry.partition(":")
        found = import_module(f"dph_corpus.cookbook.{module}")
        assert callable(getattr(found, function)), stage.name


def test_the_corpus_is_made_in_opencoders_order():
    names = [stage.name for stage in STAGES]
    corpus = ["ingest", "recall", "dedup", "transform", "filter", "synth", "decontaminate"]
    order = [*corpus, "mix", "base", "sft", "rl"]
    assert [name for name in names if name in order] == order
    assert len(set(names)) == len(names)


def test_a_name_that_the_world_does_not_make_is_told_with_those_that_it_makes(tmp_path):
    cookbook = Cookbook(corpora={"own": {"inputs": ["a"]}})
    pipeline = Pipeline(
        cookbook=cookbook, directory=tmp_path, progress=Silent(), workers=1, shards_by=1
    )
    pipeline.world = make({"files": 1}, tmp_path, seed=0, workers=1)
    assert Path(pipeline.place("world:sql")) == tmp_path / "sql"
    with pytest.raises(SettingsError, match="makes world:sql, world:annotators"):
        pipeline.place("world:else")

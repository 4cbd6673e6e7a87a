from importlib import import_module

from dph_corpus.cookbook.stages import STAGES


def test_every_row_names_a_function_that_is_there():
    for stage in STAGES:
        module, _, function = stage.entry.partition(":")
        assert callable(getattr(import_module(module), function)), stage.name


def test_the_corpus_is_made_in_opencoders_order():
    names = [stage.name for stage in STAGES]
    corpus = ["ingest", "recall", "dedup", "transform", "filter", "synth", "decontaminate"]
    order = [*corpus, "mix", "base", "sft", "rl"]
    assert [name for name in names if name in order] == order
    assert len(set(names)) == len(names)

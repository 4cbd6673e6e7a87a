"""What the slow stages of a cookbook are given, with something quick in the place of each."""

import sqlite3
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from corpus.tests.synth.small_generators import SHIPS
from dph._base.files import make_directory, read_json, write_json
from dph.runs.progress import Silent
from dph_corpus.cookbook import corpus_stages, model_stages, run
from dph_corpus.cookbook.settings import load_cookbook
from dph_corpus.cookbook.stages import Pipeline, world_stage
from small_corpora import numbered, small_corpus

HERE = Path(__file__).parent
SUMMARY = {"problems": 8, "greedy": 0.5, "pass_at_k": {"1": 0.5}, "ci95": {"greedy": [0.25, 0.75]}}


def pipeline(directory, name, **changes):
    """That of the cookbook ``name`` in ``directory``, with some of its tables changed."""
    text = (HERE / name).read_text().replace("MODULES", str(HERE.parents[2] / "tests"))
    (directory / name).write_text(text.replace("ROOT", str(HERE.parents[2])))
    cookbook = load_cookbook(directory / name).model_copy(update=changes)
    return Pipeline(cookbook=cookbook, directory=directory, progress=Silent(), workers=1)


def test_models_are_made_in_order_and_measured_under_their_names(tmp_path, monkeypatch):
    made = pipeline(tmp_path, "tiny.toml", corpora={}, mixtures={}, instruct={})
    called, stopped = [], []

    def watch(name, answer):
        return lambda _recipe, out, *_, **__: called.append((name, out.name)) or answer(out)

    monkeypatch.setattr(model_stages, "train_base", watch("train_base", lambda out: out / "model"))
    for name in ("train_sft", "evaluate"):
        monkeypatch.setattr(model_stages, name, watch(name, lambda _: None))
    pool = tmp_path / "rl" / "pool"
    files = {"files": {"a": "digest"}}
    told = watch("presample", lambda _: write_json(make_directory(pool) / "manifest.json", files))
    monkeypatch.setattr(model_stages, "presample", told)
    trained = SimpleNamespace(trained=SimpleNamespace(stopped=stopped))
    monkeypatch.setattr(model_stages, "run", watch("run", lambda _: trained))
    monkeypatch.setattr(model_stages, "directory_fingerprint", lambda place: place.name)
    measured = {"samples": 2, "sets": {"in_domain": SUMMARY}}
    monkeypatch.setattr(model_stages, "read_evaluation", lambda _: measured)
    assert {"train", "in_domain"} <= {*world_stage(made)}
    stages = ("base", "sft", "evaluate", "pool", "rl")
    digests = {name: getattr(model_stages, f"{name}_stage")(made) for name in stages}
    assert [[*found] for found in digests.values()] == [
        *(["base"], ["only"], ["base"], ["pool"], ["grpo", "dph_f"])
    ]
    rl = [("evaluate", "base"), ("presample", "dph_f"), ("run", "grpo"), ("run", "dph_f")]
    assert called == [("train_base", "base"), ("train_sft", "sft"), *rl]
    run.write_scores(made)
    assert [*read_json(tmp_path / "scores.json")["models"]] == ["base", "only", "grpo", "dph_f"]
    run.write_report(made, digests, {})
    assert "\n| dph_f | 50.0 [25.0, 75.0] |" in (tmp_path / "report.md").read_text()
    made.cookbook.rl.settings["seed"] = 9  # what was measured is of other settings
    model_stages.evaluate_stage(made)
    assert not pool.exists()
    stopped.append("by a signal")
    with pytest.raises(KeyboardInterrupt):
        model_stages.rl_stage(made)


def test_recall_and_synthesis_get_what_their_tables_say(tmp_path, monkeypatch):
    made = pipeline(tmp_path, "synth.toml")
    for name in ("known", "web"):
        small_corpus(made.corpus_stage("ingest", name), numbered(3))
    with sqlite3.connect(make_directory(tmp_path / "databases/navy") / "navy.sqlite") as navy:
        navy.executescript(SHIPS)
    navy.close()
    given = []

    def kept(*places, **named):
        given.append((named["settings"] if "settings" in named else places[0], places))
        return small_corpus(next(p for p in places if isinstance(p, Path)), numbered(2))

    monkeypatch.setattr(corpus_stages, "recall", kept)
    monkeypatch.setattr(corpus_stages, "synthesise", kept)
    monkeypatch.setattr(corpus_stages, "open_writer", lambda *_, **__: nullcontext())
    assert [*corpus_stages.recall_stage(made)] == ["web"]
    assert [*corpus_stages.synth_stage(made)] == ["queries"]
    (recall, _), (synth, words) = given
    assert (recall.vocabulary, recall.seed) == (400, made.cookbook.seed)
    assert (synth.kind, synth.samples, [seed.id for seed in words[1]]) == ("sql", 12, ["navy"])
    assert made.corpus_stages("web")[:2] == ("ingest", "recall")

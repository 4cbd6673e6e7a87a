import json
from pathlib import Path

import pytest

from dph._base.files import sha256
from dph.errors import StageError
from dph_corpus.dedup.work import MarkShard
from dph_corpus.ingest.sources import Unit
from dph_corpus.ingest.spill import ReadUnit
from dph_corpus.mix import MixShard
from dph_corpus.running import run_steps
from dph_corpus.settings import PRESETS
from dph_corpus.steps import Notes, packed, unpacked
from small_corpora import WriteWord


def step_of(directory, name, key="k", word="text"):
    return WriteWord(name=name, key=key, path=directory / f"{name}.txt", word=word)


def run(steps, directory, **changes):
    done = []
    answers = run_steps(
        steps,
        directory / "notes",
        workers=2,
        on_progress=lambda amount, note: done.append((amount, note)),
        **changes,
    )
    return answers, [note for _, note in done if note]


def test_answers_come_in_the_order_of_the_steps_and_finished_ones_are_not_done_again(tmp_path):
    steps = [step_of(tmp_path, name) for name in "abcde"]
    answers, done = run(steps, tmp_path)
    assert [answer["word"] for answer in answers] == ["text"] * 5
    assert sorted(done) == list("abcde")
    begun = []
    assert run(steps, tmp_path, on_begin=lambda: begun.append(1)) == (answers, [])
    assert begun == []


def test_another_key_or_a_changed_file_is_done_again(tmp_path):
    steps = [step_of(tmp_path, name) for name in "abc"]
    run(steps, tmp_path)
    (tmp_path / "b.txt").write_text("changed")
    assert run(steps, tmp_path)[1] == ["b"]
    steps[2] = step_of(tmp_path, "c", key="other")
    assert run(steps, tmp_path)[1] == ["c"]
    (tmp_path / "notes" / "a.json").write_text('{"key": "k", "ans')
    assert run(steps, tmp_path)[1] == ["a"]


UNIT = Unit(label="a", kind="rows", path="/a", version="1", facts={"stars": 1}, columns={})
COMMON = {"name": "a", "key": "k"}


def test_files_in_a_folder_are_checked_by_the_names_that_the_step_answered(tmp_path):
    open_ended = ReadUnit(**COMMON, unit=UNIT, out=tmp_path)
    notes = Notes(tmp_path / "notes")
    (tmp_path / "one.txt").write_text("1")
    notes.write("a", "k", {"files": {"one.txt": sha256(tmp_path / "one.txt")}})
    assert notes.read(open_ended) is not None
    (tmp_path / "one.txt").write_text("2")
    assert notes.read(open_ended) is None


@pytest.mark.parametrize(
    "step",
    [
        ReadUnit(**COMMON, unit=UNIT, out=Path("/b")),
        MarkShard(**COMMON, nearness=PRESETS["loose"], shard=Path("/b"), out=Path("/c")),
        MixShard(
            **COMMON,
            out=Path("/b"),
            low=0,
            high=2**64,
            parts={"b": [Path("/d")], "a": []},
            left_out=Path("/e"),
        ),
    ],
)
def test_a_worker_makes_the_step_that_was_asked_for(step):
    sent = json.loads(json.dumps(packed(step)))
    made = unpacked(type(step), sent)
    assert packed(made) == packed(step)
    assert made.files == step.files
    assert {type(each) for each in made.files.values()} <= {type(Path())}


def test_paths_are_absolute_in_a_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert packed(step_of(Path(), "a"))["path"] == str(tmp_path.resolve() / "a.txt")


@pytest.mark.parametrize(
    ("word", "message"),
    [("raise", "bad: error: ArithmeticError: bad"), ("die", "bad: crashed: the worker died: exit")],
)
def test_a_step_that_fails_is_an_error_that_names_it_and_the_others_stay_done(
    tmp_path, word, message
):
    steps = [step_of(tmp_path, "good"), step_of(tmp_path, "bad", word=word)]
    with pytest.raises(StageError, match=message):
        run(steps, tmp_path)
    run([steps[0]], tmp_path)
    steps[1] = step_of(tmp_path, "bad")
    assert "bad" in run(steps, tmp_path)[1]

import pytest

from dph._base.files import sha256
from dph.corpus.tasks import Notes, Task, run_tasks
from dph.errors import StageError

HANDLER = "small_corpora:make_writer"


def task(directory, name, key="k", word="text"):
    path = directory / f"{name}.txt"
    request = {"path": str(path), "word": word}
    return Task(name=name, key=key, request=request, files={"text": path})


def run(tasks, directory, **changes):
    done = []
    answers = run_tasks(
        tasks,
        Notes(directory / "notes"),
        handler=HANDLER,
        options={},
        workers=2,
        on_progress=lambda amount, note: done.append((amount, note)),
        **changes,
    )
    return answers, [note for _, note in done if note]


def test_answers_come_in_the_order_of_the_tasks_and_finished_ones_are_not_done_again(tmp_path):
    tasks = [task(tmp_path, name) for name in "abcde"]
    answers, done = run(tasks, tmp_path)
    assert [answer["word"] for answer in answers] == ["text"] * 5
    assert sorted(done) == list("abcde")
    begun = []
    assert run(tasks, tmp_path, on_begin=lambda: begun.append(1)) == (answers, [])
    assert begun == []


def test_another_key_or_a_changed_file_is_done_again(tmp_path):
    tasks = [task(tmp_path, name) for name in "abc"]
    run(tasks, tmp_path)
    (tmp_path / "b.txt").write_text("changed")
    assert run(tasks, tmp_path)[1] == ["b"]
    tasks[2] = task(tmp_path, "c", key="other")
    assert run(tasks, tmp_path)[1] == ["c"]
    (tmp_path / "notes" / "a.json").write_text('{"key": "k", "ans')
    assert run(tasks, tmp_path)[1] == ["a"]


def test_files_in_a_folder_are_checked_by_the_names_that_the_task_answered(tmp_path):
    found = task(tmp_path, "a")
    open_ended = Task(name="a", key="k", request=found.request, folder=tmp_path)
    notes = Notes(tmp_path / "notes")
    (tmp_path / "one.txt").write_text("1")
    notes.write(open_ended, {"files": {"one.txt": sha256(tmp_path / "one.txt")}})
    assert notes.read(open_ended) is not None
    (tmp_path / "one.txt").write_text("2")
    assert notes.read(open_ended) is None


@pytest.mark.parametrize(
    ("word", "message"),
    [("raise", "bad: error: ArithmeticError: bad"), ("die", "bad: crashed: the worker died: exit")],
)
def test_a_task_that_fails_is_an_error_that_names_it_and_the_others_stay_done(
    tmp_path, word, message
):
    tasks = [task(tmp_path, "good"), task(tmp_path, "bad", word=word)]
    with pytest.raises(StageError, match=message):
        run(tasks, tmp_path)
    run([tasks[0]], tmp_path)
    tasks[1] = task(tmp_path, "bad")
    assert "bad" in run(tasks, tmp_path)[1]

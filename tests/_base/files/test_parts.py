import threading

import pyarrow as pa
import pytest

from dph._base.files.parts import Earlier, Parts, TableParts
from dph.errors import DataError

JOB = {"source": "s", "rule": "r"}


def parts(directory, job=JOB, earlier=Earlier.KEPT_IF_SAME):
    return Parts(directory, job=job, suffix=".txt", earlier=earlier)


def put(store, index, text):
    with store.writing(index) as path:
        path.write_text(text)


def test_pieces_of_the_same_job_are_found_again_and_removed_at_the_end(tmp_path):
    put(parts(tmp_path / "p"), 3, "three")
    store = parts(tmp_path / "p")
    assert store.path(3).read_text() == "three"
    assert not store.path(2).exists()
    store.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_directory_appears_with_the_first_piece(tmp_path):
    store = parts(tmp_path / "new" / "p")
    assert not (tmp_path / "new" / "p").exists()
    put(store, 0, "x")
    assert sorted(p.name for p in (tmp_path / "new" / "p").iterdir()) == ["000000.txt", "job.json"]


def test_pieces_of_another_job_are_removed_with_a_warning(tmp_path, caplog):
    put(parts(tmp_path / "p"), 0, "x")
    (tmp_path / "p" / ".lock").write_text("")
    store = parts(tmp_path / "p", JOB | {"rule": "q"})
    assert not store.path(0).exists()
    assert "parts of a job with other settings: removed" in caplog.text
    assert (tmp_path / "p" / ".lock").exists()  # somebody holds it


def test_pieces_of_another_job_are_refused_where_the_same_is_required(tmp_path):
    put(parts(tmp_path / "p"), 0, "x")
    with pytest.raises(DataError, match=r"belongs to another job \(different rule\)"):
        parts(tmp_path / "p", JOB | {"rule": "q"}, Earlier.REQUIRED_SAME)
    (tmp_path / "p" / "job.json").write_text("{")
    with pytest.raises(DataError, match=r"\(different source, rule\)"):
        parts(tmp_path / "p", JOB, Earlier.REQUIRED_SAME)
    assert (tmp_path / "p" / "000000.txt").exists()


def test_a_job_can_start_from_nothing(tmp_path, caplog):
    put(parts(tmp_path / "p"), 0, "x")
    assert not parts(tmp_path / "p", earlier=Earlier.REMOVED).path(0).exists()
    assert caplog.text == ""


def test_a_piece_that_failed_is_not_there(tmp_path):
    store = parts(tmp_path / "p")

    def fail():
        with store.writing(0) as path:
            path.write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["job.json"]


def test_threads_write_pieces_side_by_side(tmp_path):
    store = parts(tmp_path / "p")
    threads = [threading.Thread(target=put, args=(store, i, str(i))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.path(i).read_text() for i in range(8)] == [str(i) for i in range(8)]


def test_tables_come_back_and_a_damaged_one_is_made_again(tmp_path, caplog):
    store, table = TableParts(tmp_path / "p", digest="d"), pa.table({"a": [1, 2]})
    assert store.read(0) is None
    store.write(0, table)
    assert TableParts(tmp_path / "p", digest="d").read(0) == table
    store.path(0).write_text("cut")
    assert store.read(0) is None
    assert "is damaged: it will be made again" in caplog.text

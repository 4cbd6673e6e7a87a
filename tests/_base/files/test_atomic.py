import pytest

from dph._base.files import atomic_file, atomic_path, write_text


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_written_file_is_there_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "grüße")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "grüße"
    assert names(tmp_path) == ["a.txt"]


def fail_half_way(path):
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        raise RuntimeError("half way")


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="half"):
        fail_half_way(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_directory_replaces_a_directory_as_a_whole(tmp_path):
    path = tmp_path / "d"
    for content in ("old", "new"):
        with atomic_path(path) as temporary:
            (temporary / "sub").mkdir(parents=True)
            write_text(temporary / "sub" / content, content)
    assert names(path / "sub") == ["new"]
    assert names(tmp_path) == ["d"]


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    (tmp_path / ".a.txt.tmp").mkdir()
    (tmp_path / ".a.txt.tmp" / "rest").write_text("half")
    write_text(tmp_path / "a.txt", "whole")
    assert names(tmp_path) == ["a.txt"]


def test_the_temporary_name_keeps_the_suffix_where_a_format_goes_by_it(tmp_path):
    with atomic_file(tmp_path / "a.csv") as temporary:
        assert temporary.suffix == ".csv"
        temporary.write_text("x")
    assert names(tmp_path) == ["a.csv"]

import pytest

from dph.errors import DataError
from dph.runs.train.evaluations import AnswerTokens, read_initial_answers, write_initial_answers

IDS = {"dev": ["a", "b"], "test": ["a"]}
ANSWERS = {
    "dev": [[AnswerTokens((1, 2)), AnswerTokens((3,))], [AnswerTokens((4,)), AnswerTokens((5, 6))]],
    "test": [[AnswerTokens((7,)), AnswerTokens((8,))]],
}


def test_answers_come_back_by_set_and_problem(tmp_path):
    path = tmp_path / "progress_initial.parquet"
    assert read_initial_answers(path, IDS, digest="d") is None
    write_initial_answers(path, ANSWERS, IDS, digest="d")
    assert read_initial_answers(path, IDS, digest="d") == ANSWERS


def test_trajectories_come_back_with_who_wrote_what(tmp_path):
    path = tmp_path / "progress_initial.parquet"
    acted = {"dev": [[AnswerTokens((1, 2, 3), (True, False, True))]]}
    write_initial_answers(path, acted, {"dev": ["a"]}, digest="d")
    assert read_initial_answers(path, {"dev": ["a"]}, digest="d") == acted


def test_answers_that_were_drawn_in_another_way_are_none(tmp_path):
    path = tmp_path / "progress_initial.parquet"
    write_initial_answers(path, ANSWERS, IDS, digest="d")
    assert read_initial_answers(path, IDS, digest="e") is None


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "progress_initial.parquet"
    path.write_bytes(b"x")
    with pytest.raises(DataError, match="is damaged"):
        read_initial_answers(path, IDS, digest="d")
    write_initial_answers(path, {"dev": ANSWERS["dev"]}, IDS, digest="d")
    with pytest.raises(DataError, match="is damaged"):
        read_initial_answers(path, IDS, digest="d")

import pytest

from dph.errors import CheckpointError
from dph.runs.train.best_checkpoint import BestCheckpoint, read_best, write_best

BEST = BestCheckpoint(step=20, score="pass_at_8", value=0.25)


def test_the_best_is_known_while_its_checkpoint_is_there_and_the_score_is_the_same(tmp_path):
    assert read_best(tmp_path, score="pass_at_8") is None
    write_best(tmp_path, BEST)
    assert read_best(tmp_path, score="pass_at_8") is None
    (tmp_path / "step_000020").mkdir()
    assert read_best(tmp_path, score="pass_at_8") == BEST
    assert read_best(tmp_path, score="greedy") is None
    assert read_best(tmp_path, score=None) is None


@pytest.mark.parametrize("content", ["", "[]", '{"schema": 1}', '{"schema": 1, "step": 3, "x": 1}'])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "best.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"best\.json is damaged"):
        read_best(tmp_path, score="mean")

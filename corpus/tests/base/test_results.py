import json

import pytest

from dph.errors import ModelError
from dph_corpus.base.checkpointed import begin, last_loss


def test_what_was_made_from_the_same_goes_on(tmp_path):
    assert not begin(tmp_path / "out", {"seed": 0}, replace=False)
    (tmp_path / "out" / "tokens").mkdir()
    assert not begin(tmp_path / "out", {"seed": 0}, replace=True)
    assert (tmp_path / "out" / "tokens").is_dir()
    model = tmp_path / "out" / "model"
    model.mkdir()
    (model / "made_from.json").write_text(json.dumps({"seed": 0}))
    assert begin(tmp_path / "out", {"seed": 0}, replace=False)


def test_what_was_made_from_something_else_is_refused_by_name_or_removed(tmp_path):
    begin(tmp_path / "out", {"seed": 0, "rows": "a"}, replace=False)
    (tmp_path / "out" / "tokens").mkdir()
    with pytest.raises(ModelError, match="differs in seed; choose another directory"):
        begin(tmp_path / "out", {"seed": 1, "rows": "a"}, replace=False)
    assert not begin(tmp_path / "out", {"seed": 1, "rows": "a"}, replace=True)
    assert not (tmp_path / "out" / "tokens").exists()


def test_the_last_loss_is_that_of_the_last_row_that_has_one():
    assert last_loss([{"loss": 3.0}, {"loss": 2.0}, {"train_loss": 9.0}]) == 2.0
    assert last_loss([]) is None

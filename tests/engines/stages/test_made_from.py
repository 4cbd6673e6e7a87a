"""An engine's checkpoints belong to one recipe."""

import pytest

from dph.engines.stages.stage import require_made_from
from dph.errors import CheckpointError


def test_a_place_keeps_the_recipe_that_it_was_first_given(tmp_path):
    require_made_from(tmp_path / "verl", "aaaa", done=0)
    require_made_from(tmp_path / "verl", "aaaa", done=4)
    with pytest.raises(CheckpointError, match="were made with other settings"):
        require_made_from(tmp_path / "verl", "bbbb", done=4)


def test_a_place_where_nothing_was_trained_takes_another_recipe(tmp_path):
    require_made_from(tmp_path / "verl", "aaaa", done=0)
    require_made_from(tmp_path / "verl", "bbbb", done=0)  # the first ran out of memory in step 1
    with pytest.raises(CheckpointError, match="were made with other settings"):
        require_made_from(tmp_path / "verl", "aaaa", done=1)

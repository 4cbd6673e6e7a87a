"""An engine's checkpoints belong to one recipe."""

import pytest

from dph.engines.stages.stage import require_made_from
from dph.errors import CheckpointError


def test_a_place_keeps_the_recipe_that_it_was_first_given(tmp_path):
    require_made_from(tmp_path / "trl", "aaaa")
    require_made_from(tmp_path / "trl", "aaaa")
    with pytest.raises(CheckpointError, match="were made with other settings"):
        require_made_from(tmp_path / "trl", "bbbb")

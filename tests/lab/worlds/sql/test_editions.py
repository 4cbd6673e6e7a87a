"""What a world says that it was made from."""

import pytest

from dph.errors import SettingsError
from dph.lab.worlds.sql.editions import SQLWorldSizes
from dph.lab.worlds.sql.hostile_edition import hostile
from dph.lab.worlds.sql.second_edition import SECOND
from dph.lab.worlds.sql.world import FIRST


def test_a_correlation_is_said_where_there_is_one_and_nowhere_else():
    assert FIRST.manifest_head(3, SQLWorldSizes()).keys() == {"schema", "seed", "sizes"}
    plain = SECOND.manifest_head(3, SQLWorldSizes())
    assert plain.keys() == {"schema", "edition", "seed", "sizes"}
    assert plain["sizes"]["unlabelled"] == 600
    ours = hostile(0.0).manifest_head(3, SQLWorldSizes())
    assert ours == {**plain, "schema": 4, "edition": 1, "correlation": 0.0}


def test_an_edition_without_unlabelled_questions_refuses_to_be_asked_for_some():
    with pytest.raises(SettingsError, match="got unlabelled=5"):
        FIRST.manifest_head(0, SQLWorldSizes(unlabelled=5))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"train": 0}, "train needs at least 1"), ({"arithmetic": 78}, "there are 77")],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(SettingsError, match=message):
        SQLWorldSizes(**sizes)

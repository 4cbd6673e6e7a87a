"""The text-to-SQL kind: sizes that can be, and the numbers of its row that a builder must keep."""

import pytest

from dph.errors import SettingsError
from lab.worlds import newest_edition, world_kind
from lab.worlds.sql.kind import SQL, SQLWorldSizes


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"train": 0}, "train needs at least 1"), ({"arithmetic": 78}, "there are 77")],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(SettingsError, match=message):
        SQLWorldSizes(**sizes)


def test_there_is_one_text_to_sql_world_and_it_is_called_edition_2():
    assert newest_edition("sql") == 2
    assert world_kind("sql") is world_kind("sql", 2) is SQL
    with pytest.raises(SettingsError, match=r"^the task 'sql' has no world 1; it has: 2$"):
        world_kind("sql", 1)

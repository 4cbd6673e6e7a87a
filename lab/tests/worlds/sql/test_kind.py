"""The text-to-SQL kind: sizes that can be."""

import pytest

from dph.errors import SettingsError
from lab.worlds.sql.kind import SQLWorldSizes


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"train": 0}, "train needs at least 1"), ({"arithmetic": 78}, "there are 77")],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(SettingsError, match=message):
        SQLWorldSizes(**sizes)

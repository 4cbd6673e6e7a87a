import pytest

from dph.errors import SettingsError
from dph_corpus.stage import FINDING, READING, require


def test_what_the_extra_installs_is_there():
    require(READING | FINDING, "filter")


def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it():
    with pytest.raises(
        SettingsError, match=r"filter needs no-such: pip install 'dph-rl\[corpus\]'"
    ):
        require({"json": "json", "no_such_module": "no-such"}, "filter")

import pytest

from dph.errors import SettingsError
from dph_corpus.stage import require


def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it():
    with pytest.raises(
        SettingsError, match=r"ingest needs no-such: pip install 'dph-corpus\[web\]'"
    ):
        require({"json": "json", "no_such_module": "no-such"}, "ingest", extra="web")

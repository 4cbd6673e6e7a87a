from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph_corpus.settings import RecallSettings, SynthSettings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"vocabulary": 255}, "vocabulary must be at least 300, got 255"),
        ({"threshold": 1.0}, r"the threshold must lie in \(0, 1\), got 1.0"),
        ({"domain_share": 1.0}, r"domain_share must lie in \[0, 1\), got 1.0"),
        ({"classifier": "bayes"}, "a classifier is one of fasttext, sklearn, got 'bayes'"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        RecallSettings(**settings)


def test_what_decides_rows_is_named_and_where_their_seeds_lie_is_not():
    settings = SynthSettings(kind="sql", databases=Path("/a"), model="m", seed=3, most=5)
    assert settings.json({"model": "digest"}) == {
        "kind": "sql",
        "samples": 1,
        "seed": 3,
        "generator": {"model": "digest"},
        "second": True,
        "survivors": 0.5,
        "timeout": 5.0,
    }

import pytest

from dph.corpus.recall.learnt import RecallSettings
from dph.errors import SettingsError


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

from dph.results.report.answers import packed, unpacked


def test_what_is_packed_comes_back_and_the_letters_mean_nothing_to_html():
    value = {"text": "</script><b>&\u202e\x00", "lone": "\ud800", "numbers": [1, None, 0.5]}
    letters = packed(value)
    assert unpacked(letters) == value
    assert set(letters) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def test_the_same_value_gives_the_same_letters():
    assert packed({"a": 1}) == packed({"a": 1})

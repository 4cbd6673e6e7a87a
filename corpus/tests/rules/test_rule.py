import pytest

from dph_corpus.rules.presets import kind_of_file, load_preset, parse_condition


@pytest.mark.parametrize(
    ("value", "holds"), [(1.9, True), (2.0, False), (10.0, False), (10.1, True), (None, False)]
)
def test_a_condition_holds_if_one_part_does_and_never_without_a_value(value, holds):
    assert parse_condition("< 2 or > 10").holds(value) is holds


def test_a_condition_in_other_words_is_refused():
    with pytest.raises(ValueError, match="compares by <, >, =="):
        parse_condition(">= 2")


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (("text", "markdown", "zh"), "text_zh"),
        (("text", "markdown", "de"), "text_en"),
        (("code", "python", "en"), "python"),
        (("data", "html", "en"), "html"),
        (("data", "json", "en"), "data"),
        (("code", "lua", "en"), "others"),
        (("excluded", "svg", "en"), None),
        (("unknown", "", "en"), None),
    ],
)
def test_the_kind_of_a_file_decides_its_rules(file, kind):
    assert kind_of_file(*file) == kind


def test_thresholds_read_as_families():
    rules = load_preset("opencoder").rules
    assert rules["qsc_code_num_chars"].thresholds() == (
        "< 50 (code but data); < 50 or > 5000 (data)"
    )

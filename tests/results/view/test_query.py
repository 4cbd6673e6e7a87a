import pytest

from dph.errors import SettingsError
from dph.results.view.set_index import number_of, query_of


def test_words_in_quotes_are_one_and_an_open_quote_ends_with_the_line():
    assert query_of({"q": 'two "words in quotes" and "open'}).words == [
        "two",
        "words in quotes",
        "and",
        "open",
    ]
    assert query_of({}).words == []


def test_an_address_without_words_asks_for_everything_in_order():
    query = query_of({"set": "dev", "shown": "r0 r1"})
    assert (query.set, query.shown, query.sort, query.down) == ("dev", ("r0", "r1"), "place", False)
    assert not query.asks_runs


def test_zero_is_a_number_to_filter_by():
    query = query_of({"from": "0", "to": "0"})
    assert (query.least, query.most, query.asks_runs) == (0, 0, True)


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3", "٣", " 1", "9" * 16])
def test_what_is_no_number_is_named(text):
    with pytest.raises(SettingsError, match="first is a whole number"):
        number_of({"first": text}, "first")


def test_a_search_of_any_length_is_not_begun():
    with pytest.raises(SettingsError, match="at most 1000 characters, got 1001"):
        query_of({"q": "a" * 1001})

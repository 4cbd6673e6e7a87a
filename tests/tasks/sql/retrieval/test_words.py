import pytest

from dph.tasks.sql.retrieval import queries, terms


def test_terms_are_lower_case_stems_without_stop_words():
    assert terms("The Singers of the U.N. and their CONCERTS") == ["singer", "u.n", "concert"]


def test_numbers_keep_their_points_and_commas_and_names_their_underscores():
    assert terms("1,234.5 in Song_release_year, v2") == ["1,234.5", "song_release_year", "v2"]


def test_a_possessive_is_not_part_of_a_word():
    assert terms("Brazil's and Brazil\u2019s") == ["brazil", "brazil"]


def test_there_are_no_terms_in_punctuation():
    assert terms("... ?!") == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who's there?", ["Who", "'s", "there", "?"]),
        ("I don't.", ["I", "do", "n't", "."]),
        ('a "b", (c)', ["a", '"', "b", '"', ",", "(", "c", ")"]),
        ("at 10:30 for $5", ["at", "10:30", "for", "$", "5"]),
    ],
)
def test_a_question_is_cut_as_the_penn_treebank_is(question, words):
    assert queries(question)[: len(dict.fromkeys(words))] == list(dict.fromkeys(words))


def test_the_longest_run_has_eight_words():
    found = queries("a b c d e f g h i j")
    # 10 + 9 + ... + 3 runs of one to eight words, and the question.
    assert len(found) == 52 + 1
    assert max(len(each.split()) for each in found[:-1]) == 8
    assert found[-1] == "a b c d e f g h i j"


def test_a_question_of_one_word_is_asked_once():
    assert queries("Singers") == ["Singers"]

from dph_corpus.signals import measuring as prose


def test_sentences_begin_at_a_word_and_run_to_a_mark():
    assert prose.count_sentences("One. Two? Three! ... four") == 4
    assert prose.count_sentences("no mark here") == 1
    assert prose.count_sentences("...") == 0


def test_sentences_have_their_mean_length():
    # "ab", "c", "" without the marks
    assert prose.mean_sentence_length("ab.c!") == 1.0


def test_teasers_end_in_dots_behind_closing_brackets():
    assert prose.teaser_lines(["more ...)\n", "wait\u2026\n", "ends.\n", "详情】\n"]) == 3


def test_a_dash_is_no_bullet():
    assert prose.bullet_lines(["\u2022 a\n", "  \u25aa b\n", "- c\n", "* d\n"]) == 2


def test_entropy_is_that_of_the_distribution_of_words():
    # two words, equally often: ln 2
    assert abs(prose.entropy(["a", "b", "a", "b"]) - 0.6931471805599453) < 1e-15


def test_the_first_copy_counts_as_a_copy():
    lines = ["a\n", " a \n", "b\n", "\n"]
    assert prose.copied_line_share(lines) == 2 / 3
    assert prose.copied_character_share(["aa\n", "aa\n", "bbbb\n", "\n"]) == 4 / 8
    assert prose.copied_line_share(["\n"]) is None


def test_links_in_brackets_and_tags_are_markup():
    assert prose.markup_characters("[x](https://a.b) <br>\n1 < 2\n") == len("(https://a.b)<br>")


def test_names_of_files_that_belong_to_code():
    names = ("README", "requirements-dev", "notes.old", "chapter")
    assert [prose.is_named_like_code(name) for name in names] == [True, True, True, False]

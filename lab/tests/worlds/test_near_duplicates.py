"""Near-duplicates: equal but for numbers and quoted texts."""

from lab.worlds.world import NearDuplicates, without_constants

TEST = "show fee of screening with turnout below 24 and site is 'Lima' ->"


def test_questions_that_differ_in_constants_alone_have_one_form():
    other = "show fee of screening with turnout below 8 and site is 'Oslo' ->"
    assert without_constants(TEST) == without_constants(other)


def test_another_word_makes_another_form():
    for other in (TEST.replace("below", "above"), TEST.replace("fee", "site")):
        assert without_constants(other) != without_constants(TEST)


def test_what_is_left_out_is_counted_once():
    near = NearDuplicates([TEST])
    assert near.leaves_out(TEST.replace("24", "8"))
    assert near.leaves_out(TEST.replace("24", "8"))
    assert near.leaves_out(TEST.replace("24", "12"))
    assert not near.leaves_out(TEST.replace("fee", "seats"))
    assert len(near.left_out) == 2


def test_without_tests_nothing_is_left_out():
    near = NearDuplicates(())
    assert not near.leaves_out(TEST)
    assert near.left_out == set()

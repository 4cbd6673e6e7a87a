import numpy as np
import pytest

from lab.worlds.lessons import Answerer, answers_of

END = 2
ONE = Answerer(
    usual=[9, 40, 41, 40, END],
    varied=[[[9, 50, 41, 50, END], [9, 60, 41, 60, END]], [[9, 40, 51, 40, END]]],
    chances=[(0.5, 0.3, 0.2), (0.9, 0.1)],
)


def test_a_choice_is_open_where_it_shows_first_and_certain_where_it_shows_again():
    tokens, likely = answers_of([ONE]).draw(np.array([0.0, 0.6, 0.95]))
    assert tokens.tolist() == [9, 50, 51, 50, END]
    assert likely.tolist() == [
        [1, 0, 0],  # the label
        [0.5, 0.3, 0.2],  # 40, 50 or 60
        [0.9, 0.1, 0],  # 41 or 51
        [0, 1, 0],  # 50 again
        [1, 0, 0],
    ]


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 40), (0.499, 40), (0.5, 50), (0.799, 50), (0.8, 60), (0.999, 60)]
)
def test_an_option_is_taken_as_often_as_it_is_likely(uniform, token):
    tokens, _ = answers_of([ONE]).draw(np.array([0.0, uniform, 0.0]))
    assert tokens[1] == tokens[3] == token


def test_the_last_option_is_taken_where_rounding_leaves_a_gap():
    thirds = Answerer([9, 40, END], [[[9, 50, END], [9, 60, END]]], [(1 / 3, 1 / 3, 1 / 3)])
    tokens, _ = answers_of([thirds]).draw(np.array([0.0, np.nextafter(1.0, 0.0)]))
    assert tokens[1] == 60


def test_those_who_answer_choose_independently():
    two = answers_of([ONE, Answerer([8, 40, END], [[[8, 50, END]]], [(0.4, 0.6)])])
    assert two.answer.tolist() == [1] * 5 + [2] * 3
    assert two.chances.tolist() == [[1, 0, 0], [0.5, 0.3, 0.2], [0.9, 0.1, 0], [0.4, 0.6, 0]]
    tokens, likely = two.draw(np.array([0.0, 0.0, 0.0, 0.5]))
    assert tokens.tolist() == [9, 40, 41, 40, END, 8, 50, END]
    assert likely[6].tolist() == [0.4, 0.6, 0]


def test_choices_that_cannot_be_independent_are_refused():
    with pytest.raises(ValueError, match="next to one of 3"):
        Answerer([9, 40, END], [[[9, END]]], [(0.5, 0.5)])
    both = Answerer([9, 40, END], [[[9, 50, END]], [[9, 60, END]]], [(0.5, 0.5), (0.5, 0.5)])
    with pytest.raises(ValueError, match=r"choices .1, 2. change one cell, 1"):
        answers_of([both])
    with pytest.raises(ValueError, match="add up to 1"):
        answers_of([Answerer([9, 40, END], [[[9, 50, END]]], [(0.5, 0.4)])])

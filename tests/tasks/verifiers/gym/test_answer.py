import pytest

from dph.tasks.verifiers.gym.verifier import gym_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("12", "12"),
        (" 12\n", "12"),
        ("3 * 4 = 12\nAnswer: 12", "12"),
        ("ANSWER: 1 answer: 2", "2"),
        ("<answer>5</answer> and <answer>\n6\n</answer>", "6"),
        ("Answer: 1 <answer>6</answer>", "6"),
        ("<answer>unclosed", "<answer>unclosed"),
        ("", None),
        (" \n ", None),
        ("Answer: ", None),
        ("<answer> </answer> 5", None),
    ],
)
def test_the_last_element_comes_before_the_last_phrase_and_all_else(response, answer):
    assert gym_answer(response) == answer

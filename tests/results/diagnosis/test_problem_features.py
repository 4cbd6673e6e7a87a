import numpy as np
import pytest

from dph.records import Problem
from dph.results.diagnosis.problem_features import problem_features

HALF = np.tile([0.0, 0.5], 6)


def features(answers, prompts=None, accuracy=None):
    problems = [
        Problem(problem_id=f"p{i}", prompt=prompts[i] if prompts else "x", answer=answer)
        for i, answer in enumerate(answers)
    ]
    accuracy = np.full(len(answers), 0.5) if accuracy is None else accuracy
    found = problem_features(problems, accuracy)
    return {
        f.name: held.tolist() for f, held in zip(found.features, found.held, strict=True)
    }, found


def test_values_that_several_problems_hold_are_features():
    held, _ = features([{"db": "a"}] * 3 + [{"db": "b"}] * 3)
    assert held == {"db = a": [True] * 3 + [False] * 3, "db = b": [False] * 3 + [True] * 3}


def test_a_column_that_tells_every_problem_apart_counts_by_its_length():
    held, _ = features([{"gold": f"{'x' * (i // 4)}{i:02d}"} for i in range(16)])
    assert held["gold: characters = 2"] == [True] * 4 + [False] * 12
    assert held["gold: characters = 5"] == [False] * 12 + [True] * 4


def test_many_numbers_are_bands_and_few_are_values():
    held, _ = features([{"hops": i} for i in range(16)])
    assert held["hops = 0 to 3"] == [True] * 4 + [False] * 12
    held, _ = features([{"hops": i % 2} for i in range(16)])
    assert held["hops = 1"] == [False, True] * 8


def test_each_entry_of_a_list_is_a_feature_and_so_is_their_number():
    held, _ = features(
        [{"terms": ["fee", "day"]}] * 3 + [{"terms": ["fee"]}] * 3 + [{"terms": []}] * 3
    )
    assert held["terms = has day"] == [True] * 3 + [False] * 6
    assert held["terms = has fee"] == [True] * 6 + [False] * 3


def test_what_holds_of_the_same_problems_is_one_feature():
    _, found = features(
        [{"db": "a", "path": "a.sqlite"}] * 3 + [{"db": "b", "path": "b.sqlite"}] * 3
    )
    (one,) = [f for f in found.features if f.name == "db = a"]
    assert one.same_as == ("path = a.sqlite",)


def test_the_length_of_a_prompt_counts_as_text_and_as_messages():
    prompts = ["x" * (i // 4) + f"{i:02d}" for i in range(16)]
    messages = [({"role": "user", "content": prompt},) for prompt in prompts]
    plain, chat = (features([{}] * 16, p)[0] for p in (prompts, messages))
    assert plain["prompt: characters = 2"] == [True] * 4 + [False] * 12
    assert plain == chat


def test_a_column_that_some_problems_lack_is_a_feature_and_objects_are_told_of():
    held, found = features([{"note": "n", "meta": {"a": 1}}] * 4 + [{"meta": {"a": 2}}] * 4)
    assert held["note = n"] == [True] * 4 + [False] * 4
    assert dict(found.unused) == {
        "meta": "its values are objects",
        "prompt": "its values do not distinguish problems",
    }


def test_the_baselines_accuracy_is_a_feature_without_a_file_of_problems():
    found = problem_features(None, HALF)
    assert [f.name for f in found.features] == [
        "baseline accuracy = 0%",
        "baseline accuracy = over 25% to 50%",
    ]
    np.testing.assert_array_equal(found.held[0], HALF == 0)


@pytest.mark.parametrize("value", [None, ""])
def test_an_empty_column_is_no_feature(value):
    held, found = features([{"empty": value}] * 6)
    assert held == {}
    assert "empty" in found.unused

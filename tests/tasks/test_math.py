import json

import pytest

from dph.errors import DataError, SettingsError
from dph.tasks.math import BOXED_INSTRUCTION, MATH_SETS, load_math, load_math_set, math_prompt
from dph.tasks.verifiers.math.answer import last_boxes
from shared_data import shared_data

SIZES = {
    "aime24": 30,
    "aime25": 30,
    "amc23": 40,
    "math500": 500,
    "olympiadbench": 675,
    "minerva": 272,
    "college_math": 2818,
    "gsm8k": 1319,
    "train": 12771,
}


@pytest.mark.parametrize("name", MATH_SETS)
def test_every_row_of_the_sets_is_a_problem_with_an_answer(name):
    loaded = load_math_set(shared_data("math"), name)
    assert (len(loaded.problems), loaded.dropped) == (SIZES[name], [])
    assert all(problem.answer["answer"] for problem in loaded.problems)
    assert all(problem.prompt.endswith(BOXED_INSTRUCTION) for problem in loaded.problems)


def test_small_sets_get_64_samples_and_larger_ones_16():
    for name, each in MATH_SETS.items():
        if name == "train":
            assert (each.samples, each.ks) == (None, ())
        else:
            assert (each.samples, max(each.ks)) == ((64, 64) if SIZES[name] <= 40 else (16, 16))


@pytest.fixture
def write(tmp_path):
    def to_file(*rows):
        path = tmp_path / "own.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return to_file


def test_a_file_with_problem_and_answer_or_solution_is_read(write):
    path = write({"problem": " 1+1? ", "answer": 2, "level": 1, "solution": "s", "x": None})
    (problem,) = load_math(path, name="own").problems
    assert problem.problem_id == "own-0"
    assert problem.prompt == math_prompt("1+1?") == "1+1?\n" + BOXED_INSTRUCTION
    assert problem.answer == {"answer": "2", "level": 1}
    content = (
        "Solve the following math problem step by step. The last line of your response should be "
        "of the form Answer: $Answer (without quotes) where $Answer is the answer to the problem."
        '\n\nq\n\nRemember to put your answer on its own line after "Answer:".'
    )
    path = write({"prompt": [{"role": "user", "content": content}], "answer": "1"})
    assert load_math(path, name="own").problems[0].prompt == math_prompt("q")
    path = write({"problem": "p", "solution": r"no \boxed{1}, but \boxed{\frac{1}{2}}."})
    assert load_math(path, name="own").problems[0].answer == {"answer": r"\frac{1}{2}"}
    path = write(*({"id": "", "problem": "p", "answer": "", "solution": r"\boxed{3}"},) * 2)
    problems = load_math(path, name="own").problems
    assert [p.problem_id for p in problems] == ["own-0", "own-1"]
    assert [p.answer["answer"] for p in problems] == ["3", "3"]


def test_rows_without_an_answer_are_dropped_and_named_and_others_than_whole_numbers_where_asked_for(
    write,
):
    loaded = load_math(write({"problem": "p", "answer": " "}, {"problem": "q"}), name="own")
    assert loaded.problems == []
    assert [place.rpartition(", ")[2] for place, _ in loaded.dropped] == ["line 1", "line 2"]
    rows = [{"problem": "p", "answer": answer} for answer in ("12", "-3", "1.0", "x", "1/2")]
    loaded = load_math(write(*rows), name="own", integers=True)
    assert [problem.answer["answer"] for problem in loaded.problems] == ["12", "-3"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"answer": "1"}], "'problem' must be text"),
        ([{"problem": "", "answer": "1"}], "'problem' must be text"),
        ([[1]], "a problem is a JSON object"),
        ([{"id": 1, "problem": "p", "answer": "1"}] * 2, r"'own-1' was already used at .*line 1"),
    ],
)
def test_a_malformed_row_is_named(write, rows, message):
    with pytest.raises(DataError, match=message):
        load_math(write(*rows), name="own")


@pytest.mark.parametrize(
    ("solution", "gold"),
    [
        (r"so \boxed {5}.", "5"),
        (r"\boxed{\left\{1,2\right.}", r"\left\{1,2\right."),
        (r"\fbox{7}", "7"),
        (r"\boxed{1} or \boxed{ 2 }", "1, 2"),
        (r"\boxed{\text{a {b} c}}", r"\text{a {b} c}"),
        (r"none", None),
        (r"\boxed{1", None),
        (r"\boxed{}", None),
    ],
)
def test_the_box_of_a_solution_is_found_where_the_verifier_finds_it(write, solution, gold):
    loaded = load_math(write({"problem": "p", "solution": solution}), name="own")
    assert [problem.answer["answer"] for problem in loaded.problems] == ([gold] if gold else [])
    assert gold is None or ", ".join(last_boxes(solution)) == gold


PUBLISHED = {  # the form of each set's rows, and their gold
    "GSM8K": ({"question": "q", "answer": "2 + 3 = <<2+3=5>>5\n#### 1,005"}, "1005"),
    "OlympiadBench": (
        {"question": "q", "solution": ["s"], "final_answer": ["$2$", "$7$"], "context": None},
        "$2$, $7$",
    ),
    "OlympiadBench in CSV": ({"question": "q", "final_answer": "['2', '7']"}, "2, 7"),
    "DeepMath": ({"question": "q", "final_answer": "1", "r1_solution_1": r"\boxed{2}"}, "1"),
    "NuminaMath-CoT": ({"problem": "q", "solution": r"so $\boxed{4}$", "messages": []}, "4"),
    "NuminaMath-1.5": ({"problem": "q", "answer": "9", "solution": r"\boxed{8}"}, "9"),
    "AIME": ({"ID": "2024-I-4", "Problem": "q", "Solution": "s", "Answer": 116}, "116"),
    "AMC": ({"problem": "q", "answer": 142.0}, "142"),
    "DAPO-Math-17k": (
        {"prompt": [{"role": "user", "content": "q"}], "reward_model": {"ground_truth": "34"}},
        "34",
    ),
    "DAPO, processed": ({"prompt": "q", "solution": "34"}, "34"),
    "IMO-AnswerBench": ({"Problem": "q", "Short Answer": "$3$"}, "$3$"),
    "MATH": ({"problem": "q", "solution": r"$x=\boxed{1}$ or $x=\boxed{6}$."}, "1, 6"),
    "an interval": ({"problem": "q", "answer": "[1, 6]"}, "[1, 6]"),
    "values after the mark of GSM8K": ({"problem": "q", "answer": "#### 2, (1,200)"}, "2, (1,200)"),
    "millions of GSM8K": ({"question": "q", "answer": "#### $1,234,567.50 "}, "$1234567.50"),
    "texts of numpy": ({"problem": "q", "answer": "['3' \"5'\"\n '(1, 2)']"}, "3, 5', (1, 2)"),
    "a list of JSON": ({"problem": "q", "answer": '["(1,6)", "(6,1)"]'}, "(1,6), (6,1)"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_rows_of_a_set_give_its_gold(write, name):
    row, gold = PUBLISHED[name]
    (problem,) = load_math(write(row), name="own").problems
    assert problem.prompt == math_prompt("q")
    assert problem.answer["answer"] == gold
    assert not {"solution", "r1_solution_1", "messages", "question"} & set(problem.answer)


@pytest.mark.parametrize(
    ("answer", "solution"),
    [("proof", "s"), ("not found", "s"), ("", "Hence it is 5."), ([], ""), (None, r"\boxed{}")],
)
def test_a_row_without_a_gold_is_counted(write, answer, solution):
    loaded = load_math(write({"problem": "q", "answer": answer, "solution": solution}), name="own")
    assert [why for _, why in loaded.dropped] == ["no answer"]


def test_other_columns_are_named_and_an_unknown_set_is_refused(write, tmp_path):
    path = write({"text": "q", "target": "5", "answer": "6"})
    (problem,) = load_math(path, name="own", question="text", answer="target").problems
    assert (problem.prompt, problem.answer) == (math_prompt("q"), {"answer": "5"})
    with pytest.raises(DataError, match="no column 'gold'; there are text, target, answer"):
        load_math(path, name="own", question="text", answer="gold")
    with pytest.raises(DataError, match=r"the columns are text, target, answer, .*--question"):
        load_math(path, name="own")
    loaded = load_math(write({"problem": "q", "target": "5"}), name="own")
    assert "no answer in the columns problem, target" in loaded.dropped[0][1]
    with pytest.raises(SettingsError, match=r"aime24, aime25, .*got 'aime26'"):
        load_math_set(tmp_path, "aime26")

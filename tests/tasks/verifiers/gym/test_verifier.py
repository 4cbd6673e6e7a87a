import re
from pathlib import Path

import pytest

from dph import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.tasks.problems import load_problems, problems_fingerprint, save_problems
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.gym.verifier import GymMaker, gym_answer, parse_config
from gym_oracle import own_scores
from shared_data import SOME_AND_ALL

gym = pytest.importorskip("reasoning_gym")

TASKS = (
    *("base_conversion", "basic_arithmetic", "bitwise_arithmetic", "caesar_cipher", "chain_sum"),
    *("complex_arithmetic", "count_bits", "count_primes", "countdown", "decimal_arithmetic"),
    *("dice", "family_relationships", "fraction_simplification", "gcd", "gsm_symbolic"),
    *("isomorphic_strings", "knights_knaves", "largest_island", "lcm", "leg_counting"),
    *("letter_counting", "letter_jumble", "mini_sudoku", "n_queens", "number_filtering"),
    *("number_sequence", "number_sorting", "palindrome_generation", "polynomial_multiplication"),
    *("prime_factorization", "products", "puzzle24", "ransom_note", "simple_equations"),
    *("simple_integration", "spell_backward", "spiral_matrix", "string_insertion", "syllogism"),
    *("time_intervals", "word_sorting"),
)


@pytest.fixture(scope="module")
def verifier():
    with make_verifier("reasoning_gym", timeout=3.0) as made:
        yield made


@pytest.fixture(scope="module")
def maker():
    with GymMaker() as made:
        yield made


@pytest.fixture(scope="module")
def by_task(maker):
    return {task: maker.problems(task, count=10, seed=3) for task in TASKS}


def answers_to(problem, others):
    """Right, of another problem, nearly right, and not an answer: five of each problem."""
    gold = problem.answer["answer"]
    yield gold
    yield others[0].answer["answer"]
    yield gold[:-1] or "x"
    yield gold + " "
    yield "I do not know"


@SOME_AND_ALL
def test_scores_are_those_of_the_package_on_two_thousand_answers(verifier, by_task, every):
    pairs = [
        (problem, answer)
        for problems in by_task.values()
        for place, problem in enumerate(problems)
        for answer in answers_to(problem, problems[place - 1 :] or problems)
    ]
    assert len(pairs) >= 2000
    chosen = pairs[:: 1 if every == 1 else every + 1]  # five answers a problem: of all kinds
    problems, answers = zip(*chosen, strict=True)
    verdicts = verifier.grade(problems, answers)
    scores = own_scores(problems, [answer.strip() for answer in answers])
    for problem, answer, verdict, score in zip(problems, answers, verdicts, scores, strict=True):
        told = (verdict.outcome, verdict.reward)
        right = Outcome.CORRECT if score and score >= 1 else Outcome.WRONG
        expected = (Outcome.INVALID, 0.0) if score is None else (right, score)
        assert told == expected, (problem.problem_id, answer, verdict.reason)
    rare = {Outcome.INVALID} if every == 1 else set()
    assert {v.outcome for v in verdicts} >= {Outcome.CORRECT, Outcome.WRONG} | rare


@pytest.mark.parametrize("threshold", [0.05, 1.0])
def test_the_threshold_decides_which_scores_are_right(maker, threshold):
    problem = maker.problems("countdown", count=1)[0]
    wasteful = str(problem.answer["answer"]) + " + 1"
    assert own_scores([problem], [wasteful]) == [0.05]
    with make_verifier("reasoning_gym", gym_threshold=threshold) as verifier:
        (verdict,) = verifier.grade([problem], [wasteful])
    assert verdict.reward == 0.05
    assert verdict.outcome is (Outcome.CORRECT if threshold <= 0.05 else Outcome.WRONG)
    assert verdict.reason.startswith("score 0.05")


HOSTILE = {
    "n_queens": '__import__("os").system("touch {mark}")',
    "spiral_matrix": '[open("{mark}", "w").close()]',
    "string_insertion": '[open("{mark}", "w").write("x")]',
    "binary_matrix": '[[open("{mark}", "w").close()]]',
    "countdown": "S(\"__import__('os').system('touch {mark}')\")",
    "puzzle24": '__import__("os").system("touch {mark}") + 24',
    "simple_integration": "x.__class__.__mro__[-1].__subclasses__()",
    "polynomial_multiplication": 'open("{mark}", "w")',
}


@pytest.mark.parametrize("task", HOSTILE)
def test_code_in_an_answer_does_not_run_and_is_never_right(verifier, maker, tmp_path, task):
    mark = tmp_path / "mark"
    problem = maker.problems(task, count=1)[0]
    (verdict,) = verifier.grade([problem], [HOSTILE[task].format(mark=mark)])
    assert verdict.outcome in (Outcome.WRONG, Outcome.INVALID)
    assert not mark.exists()


@pytest.mark.parametrize("task", ["countdown", "chain_sum", "number_sorting", "letter_jumble"])
@pytest.mark.parametrize(
    "answer", ["9" * 100_000, "(" * 100_000, "a\x00b\x00", "\ud800", "9**9**9**9", "[" * 5000]
)
def test_a_hostile_answer_costs_one_verdict(verifier, maker, task, answer):
    problem = maker.problems(task, count=1)[0]
    gold = str(problem.answer["answer"])
    verdicts = verifier.grade([problem] * 3, [gold, answer, gold])
    assert verdicts[1].outcome in (Outcome.WRONG, Outcome.TIMED_OUT, Outcome.INVALID)
    assert [v.outcome for v in verdicts[::2]] == [Outcome.CORRECT] * 2


@pytest.mark.parametrize("comment", ["# {}", "\n# {}", "; {}"])
def test_numbers_outside_of_an_expression_are_not_used_by_it(verifier, maker, comment):
    problem = maker.problems("countdown", count=1)[0]
    numbers = re.findall(r"\d+", str(problem.answer["answer"]))
    target = re.search(r"Calculate (\d+)", problem.prompt)[1]
    cheat = f"{target} * 1 " + comment.format(" ".join(numbers))
    assert verifier.grade([problem], [cheat])[0].outcome is Outcome.WRONG


def test_what_is_not_graded_says_why(verifier, maker):
    problem = maker.problems("prime_factorization", count=1)[0]
    (verdict,) = verifier.grade([problem], ["I do not know"])
    assert (verdict.outcome, verdict.reward) == (Outcome.INVALID, 0.0)
    assert verdict.reason.startswith("its scorer cannot read the answer: ValueError")
    problem = maker.problems("gcd", count=1)[0]
    assert verifier.grade([problem], [" "])[0].outcome is Outcome.NO_ANSWER
    other = {**problem.answer, "gym_question": "What is 2?"}
    changed = Problem(problem_id="p", prompt="?", answer=other)
    (verdict,) = verifier.grade([changed], ["2"])
    assert verdict.outcome is Outcome.BAD_GOLD
    assert "asks a different question as entry 0 of gcd" in verdict.reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gym_task": None}, r"needs gym_task \(str\) in problem 'p', got None"),
        ({"gym_seed": "0"}, r"needs gym_seed \(int\) in problem 'p', got '0'"),
        ({"gym_index": 2}, r"gym_index of problem 'p' must be 0 to 1 \(gym_size\), got 2"),
        ({"gym_question": 1}, r"needs gym_question \(str\) in problem 'p', got 1"),
    ],
)
def test_a_problem_that_names_no_entry_is_refused(verifier, maker, change, message):
    problem = maker.problems("gcd", count=1)[0]
    broken = Problem(problem_id="p", prompt="?", answer={**problem.answer, **change})
    with pytest.raises(DataError, match=message):
        verifier.grade([broken], ["2"])


@pytest.mark.parametrize("threshold", [0.0, 1.5])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(SettingsError, match="must be above 0 and at most 1"):
        make_verifier("reasoning_gym", gym_threshold=threshold)


def test_every_scorer_of_the_package_that_evaluates_is_known():
    """A new version of the package with another such scorer is to be looked at first."""
    evaluating = set()
    root = Path(gym.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for body in re.findall(r"def score_answer\(.*?(?=\n    def |\nclass |\Z)", text, re.DOTALL):
            if re.search(r"\b(?:eval|exec|parse_expr|sympify|literal_eval)\(", body):
                evaluating.add(str(path.relative_to(root))[:-3].replace("/", "."))
    known = {
        "algebra": "intermediate_integration polynomial_multiplication simple_integration",
        "algorithmic": "binary_matrix number_sorting spiral_matrix string_insertion",
        "games": "countdown n_queens puzzle24",
    }
    assert evaluating == {f"{kind}.{name}" for kind in known for name in known[kind].split()}


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        *(("12", "12"), (" 12\n", "12")),
        *(("3 * 4 = 12\nAnswer: 12", "12"), ("ANSWER: 1 answer: 2", "2")),
        ("<answer>5</answer> and <answer>\n6\n</answer>", "6"),
        ("Answer: 1 <answer>6</answer>", "6"),
        ("<answer>unclosed", "<answer>unclosed"),
        *(("", None), (" \n ", None), ("Answer: ", None), ("<answer> </answer> 5", None)),
    ],
)
def test_the_last_element_comes_before_the_last_phrase_and_all_else(response, answer):
    assert gym_answer(response) == answer


def test_a_task_is_a_function_of_its_seed_and_settings(maker, tmp_path):
    first = maker.problems("chain_sum", count=5, seed=1)
    assert maker.problems("chain_sum", count=5, seed=1) == first
    prints = {
        problems_fingerprint(maker.problems("chain_sum", count=5, **options))
        for options in ({"seed": 1}, {"seed": 2}, {"seed": 1, "config": {"max_terms": 3}})
    }
    assert len(prints) == 3
    problem = maker.problems("chain_sum", count=1, config={"max_terms": 3})[0]
    assert problem.answer["gym_config"] == {"max_terms": 3}
    save_problems(tmp_path / "p.jsonl", [problem])
    assert load_problems(tmp_path / "p.jsonl") == [problem]
    config = {"min_value": 2, "max_value": 4, "min_numbers": 2, "max_numbers": 2}
    problems = maker.problems("gcd", count=500, config=config)
    assert len({p.prompt for p in problems}) == len(problems) == 9  # pairs of 2, 3 and 4


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("chain_sums", {}, "no task 'chain_sums'; did you mean 'chain_sum'"),
        ("composite", {}, "no task 'composite'"),
        ("gcd", {"config": {"minimum": 2}}, r"cannot make gcd with \{'minimum': 2\}.*min_numbers"),
        ("gcd", {"config": {"min_value": -2}}, "cannot make gcd with"),
        ("gcd", {"count": 0}, "count must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_made_is_one_message(maker, task, options, message):
    with pytest.raises(SettingsError, match=message):
        maker.problems(task, **{"count": 1, **options})


def test_settings_of_a_task_are_toml_or_texts():
    assert parse_config(["a=1", "b=[1, 2]", "c=true", "d=word", "e=x=y"]) == {
        "a": 1,
        "b": [1, 2],
        "c": True,
        "d": "word",
        "e": "x=y",
    }
    with pytest.raises(SettingsError, match="KEY=VALUE, got 'alone'"):
        parse_config(["alone"])

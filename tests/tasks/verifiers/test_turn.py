import time
from types import SimpleNamespace

import pytest

from dph.records import Outcome, Problem
from dph.tasks.verifiers.code.task import extract_program
from dph.tasks.verifiers.exact import ExactVerifier, NumberVerifier
from dph.tasks.verifiers.math.handler import MathGrader
from dph.tasks.verifiers.math.verifier import GOLD
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.turn import read_turn

MARKS = [
    ("<think>", "</think>"),
    ("<think>\n", "\n</think>\n\n"),
    ("<THINK>", "</Think>"),
    ('<think effort="high">', "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("[THINK]", "[/THINK]"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|channel>thought\n", "<channel|>"),
    (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    ("analysis", "assistantfinal"),
]
ENDS = ["", "<|im_end|>", "<|im_end|>\n<|im_start|>user\n7", "<|endoftext|>8", "<|eot_id|>", "</s>"]


def numbers(response, gold):
    problem = Problem(problem_id="p", prompt="?", answer={"answer": gold})
    return NumberVerifier().grade([problem], [response])[0].outcome


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_a_draft_is_no_answer_and_the_text_after_it_is(opening, closing, end):
    response = f"{opening}Perhaps it's 3.{closing}It is 4.{end}"
    assert read_turn(response).answer.strip() == "It is 4."
    assert numbers(response, "4") is Outcome.CORRECT
    assert numbers(response, "3") is Outcome.WRONG


@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_a_thought_that_is_never_closed_holds_no_answer(opening, closing):
    assert read_turn(f"{opening}It is 4, or") == (f"{opening}It is 4, or", "")
    assert numbers(f"{opening}Perhaps 4", "4") is Outcome.NO_ANSWER
    assert numbers(f"{opening}3{closing}4<think>5", "4") is Outcome.NO_ANSWER


@pytest.mark.parametrize("closing", [closing for _, closing in MARKS[:-1]])
def test_the_opening_mark_may_be_part_of_the_prompt(closing):
    assert read_turn(f"Perhaps 3.{closing}4").answer.strip() == "4"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("", ""),
        ("It is 4.", "It is 4."),
        ("<think></think>4", "4"),
        ("<think>1</think>2<think>3</think>4", "4"),
        ("<think>a <think> b </think>4", "4"),
        ("<think>closed by </reasoning> something else", ""),
        ("<think>2 < 3 </reasoning> 3</think>4", "4"),
        ("<think>I shall end with `</think>` and", ""),
        ('<think>I shall end with "</think>".</think>4', "4"),
        ('The mark "<think>" begins a thought: 4', 'The mark "<think>" begins a thought: 4'),
        ("<thinker>4", "<thinker>4"),
        ("Analysis of it: 4", "Analysis of it: 4"),
        ("analysis of it: 4", "analysis of it: 4"),
        ("2 <think 3", "2 <think 3"),
        ("<s>3</s> 4", "<s>3</s> 4"),
        ("4</s> \n", "4"),
    ],
)
def test_the_answer_of_a_turn(response, answer):
    turn = read_turn(response)
    assert turn.answer == answer
    assert response.startswith(turn.thoughts + turn.answer)


def test_marks_that_a_program_quotes_are_part_of_it():
    program = 'def cut(text):\n    return text.split("</think>")[-1].strip("<|im_end|>")\n'
    response = f"<think>hm</think>\n```python\n{program}```"
    assert extract_program(response) == program


@pytest.mark.parametrize(
    ("response", "statement"),
    [
        ("<think>\n```sql\nSELECT 1\n```</think>SELECT 2", "SELECT 2"),
        ("<think><answer>SELECT 1</answer></think>SELECT 2", "SELECT 2"),
        ("```sql\nSELECT 1\n```\nno.</think>\n```sql\nSELECT 2\n```", "SELECT 2\n"),
        ('<think>{"sql": "SELECT 1"}</think>{"sql": "SELECT 2"}', "SELECT 2"),
        ("<think>SELECT 1", None),
        ("<think>SELECT 1</think>", None),
    ],
)
def test_a_statement_of_a_draft_is_not_extracted(response, statement):
    found = extract_sql(response)
    assert (found and found.statement.strip()) == (statement and statement.strip())


def test_what_a_response_says_before_its_statement_has_the_thoughts_in_it():
    response = "<think>by age</think>It is: SELECT 1"
    assert extract_sql(response).preamble == "<think>by age</think>It is: "


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (r"<think>\boxed{4}</think>\boxed{5}", Outcome.WRONG),
        (r"<think>\boxed{5}</think>\boxed{4}", Outcome.CORRECT),
        (r"<think>\boxed{4}</think>", Outcome.NO_ANSWER),
        (r"<think>\boxed{4}", Outcome.NO_ANSWER),
        (r"<think>The answer is 5.</think>The answer is 4.", Outcome.CORRECT),
        ("<think>5</think><answer>4</answer>", Outcome.CORRECT),
        ("<answer>4</answer> <answer>5</answer>", Outcome.WRONG),
        (r"\boxed{4} <answer>the answer is 5</answer>", Outcome.WRONG),
        ("<answer></answer>", Outcome.NO_ANSWER),
    ],
)
def test_a_box_of_a_draft_earns_nothing(response, outcome):
    grader = MathGrader(phrases=["answer is"], any_expression=True)
    assert grader({"response": response, "gold": "4"}, lambda *_: None)[0] == outcome


def test_an_answer_without_a_gold_is_compared_without_its_thoughts():
    verifier = SimpleNamespace(settings={"phrases": ["answer is"]})
    made = GOLD.make(verifier, r"<think>\boxed{3}</think>\boxed{4}")
    assert made == {"answer": r"\boxed{4}"}


def test_the_exact_verifier_compares_what_follows_a_thought():
    problem = Problem(problem_id="p", prompt="?", answer={"answer": "yes"})
    graded = ExactVerifier().grade([problem] * 3, ["<think>no</think>\nyes", "<think>yes", "yes"])
    assert [verdict.outcome for verdict in graded] == [
        Outcome.CORRECT,
        Outcome.NO_ANSWER,
        Outcome.CORRECT,
    ]


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "</",
        "<think ",
        "<think",
        "`<think>",
        '"<think>"',
        "<|channel|>final",
        "</s> ",
        "<|",
        "a",
    ],
)
def test_hostile_marks_are_read_in_time_that_grows_with_their_length(piece):
    start = time.process_time()
    read_turn("```\n" + piece * (400_000 // len(piece)))
    assert time.process_time() - start < 60  # as its square: hours

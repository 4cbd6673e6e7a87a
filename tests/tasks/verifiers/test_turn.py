import json
import random
import textwrap
import time
from types import SimpleNamespace

import pytest

from dph.records import Outcome, Problem
from dph.tasks.verifiers.code.task import extract_program
from dph.tasks.verifiers.exact import ExactVerifier, NumberVerifier
from dph.tasks.verifiers.math.answer import find_answer
from dph.tasks.verifiers.math.handler import MathGrader
from dph.tasks.verifiers.math.verifier import MathVerifier
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.turn import read_turn

MARKS = [
    *(("<think>", "</think>"), ("<think>\n", "\n</think>\n\n"), ("<THINK>", "</Think>")),
    *(('<think effort="high">', "</think>"), ("<thinking>", "</thinking>")),
    *(("<thought>", "</thought>"), ("<reasoning>", "</reasoning>"), ("<analysis>", "</analysis>")),
    *(("<scratchpad>", "</scratchpad>"), ("<seed:think>", "</seed:think>")),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    *(("<|START_THINKING|>", "<|END_THINKING|>"), ("<|inner_prefix|>", "<|inner_suffix|>")),
    ("[THINK]", "[/THINK]"),
    *(("\u25c1think\u25b7", "\u25c1/think\u25b7"), ("<|channel>thought\n", "<channel|>")),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
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
        *(("", ""), ("It is 4.", "It is 4."), ("<think></think>4", "4")),
        *(("<think>1</think>2<think>3</think>4", "4"), ("<think>a <think> b </think>4", "4")),
        ("<think>closed by </reasoning> something else", ""),
        ("<think>2 < 3 </reasoning> 3</think>4", "4"),
        ("<think>I shall end with `</think>` and", ""),
        ('<think>I shall end with "</think>".</think>4', "4"),
        ('The mark "<think>" begins a thought: 4', 'The mark "<think>" begins a thought: 4'),
        *(("<thinker>4", "<thinker>4"), ("Analysis of it: 4", "Analysis of it: 4")),
        *(("analysis of it: 4", "analysis of it: 4"), ("2 <think 3", "2 <think 3")),
        *(("<s>3</s> 4", "<s>3</s> 4"), ("4</s> \n", "4")),
    ],
)
def test_the_answer_of_a_turn(response, answer):
    turn = read_turn(response)
    assert turn.answer == answer
    assert response.startswith(turn.thoughts + turn.answer)


def test_marks_that_a_program_quotes_are_part_of_it_and_thoughts_of_what_precedes_a_statement():
    program = 'def cut(text):\n    return text.split("</think>")[-1].strip("<|im_end|>")\n'
    response = f"<think>hm</think>\n```python\n{program}```"
    assert extract_program(response) == program
    response = "<think>by age</think>It is: SELECT 1"
    assert extract_sql(response).preamble == "<think>by age</think>It is: "


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


def test_other_answers_are_compared_without_their_thoughts():
    verifier = SimpleNamespace(settings={"phrases": ["answer is"]})
    made = MathVerifier.gold_of(verifier, r"<think>\boxed{3}</think>\boxed{4}")
    assert made == {"answer": r"\boxed{4}"}
    problem = Problem(problem_id="p", prompt="?", answer={"answer": "yes"})
    graded = ExactVerifier().grade([problem] * 3, ["<think>no</think>\nyes", "<think>yes", "yes"])
    assert [verdict.outcome for verdict in graded] == ["CORRECT", "NO_ANSWER", "CORRECT"]


@pytest.mark.parametrize(
    "piece", ["<", "</", "<think ", "<think", "`<think>", '"<think>"', "<|channel|>final", "</s> "]
)
def test_hostile_marks_are_read_in_time_that_grows_with_their_length(piece):
    start = time.process_time()
    read_turn("```\n" + piece * (400_000 // len(piece)))
    assert time.process_time() - start < 60  # as its square: hours


GENERATED = 34_000

NAMES = ["name", "age", "t1.city", '"first name"', "[order]", "`group`", "count(*)", "max(a.b)"]
TESTS = ["a > 20", "b <> 'it''s; --'", "c IN (SELECT d FROM u)", "e LIKE '%</b>%'", "f IS NOT NULL"]
CONTENTS = [r"\frac{1}{2}", "-3", "x^2 + 1", "(1, 2)", r"\sqrt{2}", r"\text{Tuesday}", "1{,}200"]
CHATTER = [
    *("Let's see.", "It's the oldest first, isn't it?", "So 2 < 3 and 4 > 1."),
    *("- first, the names\n- then the ages", 'They say "all of them".'),
    *("Nothing {else} [matters] (here).", "a | b\n--- | ---\n1 | 2"),
]
THOUGHTS = [
    ("<think>", "</think>"),
    ("<think>\n", "\n</think>\n"),
    ("", "\n</think>\n"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]
CLOSINGS = ["", "\n", "<|im_end|>", "<|endoftext|>\nUser: and now?", "</s>"]


def chatter(rng, most=2):
    return "\n\n".join(rng.sample(CHATTER, k=rng.randrange(most + 1)))


def response(rng, wrapped, draft, *, after=True):
    """The wrapped answer between chatter, behind a thought with a draft, before an end."""
    parts = [chatter(rng), wrapped, chatter(rng, 1) if after else ""]
    body = "\n\n".join(part for part in parts if part)
    if rng.random() < 0.5:
        opening, closing = rng.choice(THOUGHTS)
        pieces = [chatter(rng), draft, chatter(rng)] * rng.randrange(1, 3)
        body = opening + "\n".join(pieces) + closing + body
    return body + rng.choice(CLOSINGS)


def statement(rng):
    columns = ", ".join(rng.sample(NAMES, k=rng.randrange(1, 4)))
    text = f"SELECT {columns} FROM t AS t1 WHERE {rng.choice(TESTS)}"
    if rng.random() < 0.3:
        text += f"\nUNION ALL\nSELECT {columns} FROM v"
    if rng.random() < 0.3:
        text = f"WITH t AS (\n  SELECT 1\n)\n{text}"
    return text + rng.choice(["", " ORDER BY 1 DESC", "\nLIMIT 3"])


def wrapped_statement(rng, sql):
    """The statement in a form, and whether chatter may stand after it."""
    label = rng.choice(["SQL: ", "**SQL:**\n", "The query is:\n", ""])
    field = rng.choice(["sql", "SQL", "query", "sql_query", "Final SQL", "statement"])
    whole = json.dumps({"reasoning": rng.choice(CHATTER), field: sql})
    return rng.choice(
        [
            (f"```{rng.choice(['sql', 'SQL', 'sqlite', ''])}\n{sql}\n```", True),
            (f"~~~sql\n{sql}\n~~~", True),
            (f"<answer>{sql}</answer>", True),
            (f"<answer>\n```sql\n{sql}\n```\n</answer>", True),
            (f'<tool_call>{{"name": "run", "arguments": {whole}}}</tool_call>', True),
            (whole, True),
            (f"```json\n{whole}\n```", True),
            (f"{label}{sql};", True),
            (f"{label}{sql}", False),
            (f"{label}{sql}\n\nExplanation: that is all.", True),
            (f"<FINAL_ANSWER>\n{sql}\n</FINAL_ANSWER>", True),
            (f"[SQL]{sql}[/SQL]", True),
        ]
    )


def content(rng):
    parts = rng.choices(CONTENTS, k=rng.choice([1, 1, 1, 2]))
    return rng.choice([", ", " + "]).join(parts)


def wrapped_box(rng, answer):
    box = rng.choice(
        [r"\boxed{%s}", r"$\boxed{%s}$", r"\[\boxed{%s}\]", r"\fbox{%s}", "\\boxed {%s}"]
    )
    if rng.random() < 0.2:
        return f"<answer>{rng.choice([box, '%s']) % answer}</answer>"
    mention = rng.choice(["", r" (written in \boxed{} as asked)", r" The form is \boxed{\ }."])
    before = rng.choice(
        ["", "The answer is ", "#### ", r"First \boxed{0}, no." + "\n\n", "**Answer:** "]
    )
    return before + box % answer + mention


def program(rng):
    name = rng.choice(["solve", "add_all"])
    body = rng.choice(
        [
            "return sum(xs)",
            'text = "```"\nreturn len(text) + len("</think>")',
            "if not xs:\n    return 0\nreturn max(xs)",
            '"""Of <answer> and ```."""\nreturn xs',
        ]
    )
    return f"import math\n\n\ndef {name}(xs):\n{textwrap.indent(body, '    ')}\n", name


def wrapped_program(rng, text):
    fence = rng.choice(["```", "````", "~~~"])
    mark = rng.choice(["python", "py", "Python", "python3", ""])
    block = f"{fence}{mark}\n{text}{fence}"
    if rng.random() < 0.3:
        block = "1. Here it is:\n\n" + textwrap.indent(block, rng.choice(["  ", "   ", "    "]))
    elif rng.random() < 0.2:
        block = f"<answer>\n{block}\n</answer>"
    if rng.random() < 0.2:
        block = f"It is used so:\n```python\nprint(1)\n```\n\n{block}"
    return block


@pytest.mark.slow
def test_a_statement_comes_out_of_a_generated_response():
    rng = random.Random(0)
    for _ in range(GENERATED):
        sql, draft = statement(rng), statement(rng)
        wrapped, after = wrapped_statement(rng, sql)
        text = response(rng, wrapped, wrapped_statement(rng, draft)[0], after=after)
        found = extract_sql(text)
        assert found is not None, text
        assert found.statement.strip().rstrip(";") == sql, text


@pytest.mark.slow
def test_a_box_comes_out_of_a_generated_response():
    rng = random.Random(1)
    for _ in range(GENERATED):
        answer = content(rng)
        text = response(rng, wrapped_box(rng, answer), wrapped_box(rng, content(rng)))
        found = find_answer(read_turn(text).answer)
        assert found is not None, text
        assert found.parts == (answer,), text


@pytest.mark.slow
def test_a_program_comes_out_of_a_generated_response():
    rng = random.Random(2)
    for _ in range(GENERATED):
        source, name = program(rng)
        text = response(rng, wrapped_program(rng, source), wrapped_program(rng, program(rng)[0]))
        known = "used so" in text or rng.random() < 0.5  # of two programs the name decides
        found = extract_program(text, entry_point=name if known else "")
        assert found is not None, text
        assert found.strip() == source.strip(), text

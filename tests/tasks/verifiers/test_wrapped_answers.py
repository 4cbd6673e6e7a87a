"""An answer that is put into a generated response comes out of it: a statement, a box, a program.

Around it stand thoughts with drafts of the same kind, chatter, fences, JSON and closing marks, in
any combination that a reader would understand in one way.
"""

import json
import random
import textwrap

import pytest

from dph.tasks.verifiers.code.task import extract_program
from dph.tasks.verifiers.math.answer import find_answer
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.turn import read_turn

GENERATED = 34_000

NAMES = ["name", "age", "t1.city", '"first name"', "[order]", "`group`", "count(*)", "max(a.b)"]
TESTS = ["a > 20", "b <> 'it''s; --'", "c IN (SELECT d FROM u)", "e LIKE '%</b>%'", "f IS NOT NULL"]
CONTENTS = [r"\frac{1}{2}", "-3", "x^2 + 1", "(1, 2)", r"\sqrt{2}", r"\text{Tuesday}", "1{,}200"]
CHATTER = [
    "Let's see.",
    "It's the oldest first, isn't it?",
    "So 2 < 3 and 4 > 1.",
    "- first, the names\n- then the ages",
    'They say "all of them".',
    "Nothing {else} [matters] (here).",
    "a | b\n--- | ---\n1 | 2",
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
ENDS = ["", "\n", "<|im_end|>", "<|endoftext|>\nUser: and now?", "</s>"]


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
    return body + rng.choice(ENDS)


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

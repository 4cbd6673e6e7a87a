import pytest

from dph.tasks.verifiers.math.answer import (
    LONGEST_ANSWER,
    Place,
    clean_answer,
    find_answer,
    has_box,
    last_boxes,
    same_spelling,
    trim_answer,
)


@pytest.mark.parametrize(
    ("response", "parts"),
    [
        (r"\boxed{\frac{1}{2^{3}}}", (r"\frac{1}{2^{3}}",)),
        (r"first \boxed{1}, and after more thought \boxed{2}.", ("2",)),
        (r"\boxed{x = \boxed{5}}", ("5",)),
        (r"\boxed {7}", ("7",)),
        (r"\fbox{7}", ("7",)),
        (r"\boxed{\{1, 2\}}", (r"\{1, 2\}",)),
        (r"\boxed{\left\{ 1 \right.}", (r"\left\{ 1 \right.",)),
        (r"\boxed{3} and then \boxed{4", ("3",)),
        (r"\boxed{1}\boxed{2}", ("1", "2")),
        (r"$\boxed{1}$, $\boxed{2}$, and $\boxed{3}$", ("1", "2", "3")),
        (r"\boxed{1} \text{ or } \boxed{2}", ("1", "2")),
        (r"no box at all", ()),
        (r"\boxed{1", ()),
    ],
)
def test_the_last_closed_boxes_count(response, parts):
    assert last_boxes(response) == parts


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The answer is 5.", "5."),
        ("THE ANSWER IS: **7**", "7"),
        ("the answer is 4. No, the answer is 5", "5"),
        ("Final answer: $x=1$\n\nAnd some more words", "$x=1$"),
        ("The final answer is $3$. I hope it is correct.", "$3$."),
    ],
)
def test_without_a_box_the_last_phrase_counts(response, answer):
    found = find_answer(response)
    assert found is not None
    assert found.parts == (answer,)
    assert found.place is Place.PHRASE


def test_phrases_are_a_setting_and_boxes_count_more():
    assert find_answer("it comes to 5", phrases=("it comes to",)).parts == ("5",)
    assert find_answer("the answer is 5", phrases=()) is None
    assert find_answer("the answer is ") is None
    assert last_boxes(r"\boxed{" + "9" * (LONGEST_ANSWER + 10) + "}") == ()
    assert has_box(r"\boxed{9")
    assert find_answer(r"\boxed{1}. The answer is clear.").parts == ("1",)
    closing = r"\boxed{1}. The final answer is $2$. I hope it is correct."
    assert find_answer(closing).parts == ("$2$.",)
    boxed = r"The final answer is $\boxed{2}$. I hope it is correct."
    assert find_answer(boxed).place is Place.BOX
    assert find_answer("\u0130\u0130\u0130 the answer is 5").parts == ("5",)


@pytest.mark.parametrize(
    "mention",
    [
        *(r"\boxed{}", r"\boxed{ }", r"\boxed{\,}", r"\boxed{\ }", r"\boxed{...}"),
        *(r"\boxed{\ldots}", r"\boxed{\text{answer}}"),
        *(r"\boxed{\textbf{Your Answer}}", r"\boxed{<final answer>}"),
        r"\boxed{\text{your answer here}}",
        r"\fbox{\square}",
        r"$\boxed{\text{ANSWER}}$.",
    ],
)
def test_a_box_that_only_mentions_the_form_is_no_answer(mention):
    assert last_boxes(rf"It is \boxed{{8}}, given in {mention}") == ("8",)
    assert last_boxes(rf"I give it in {mention}. It is \boxed{{8}}") == ("8",)
    assert last_boxes(mention) == ()
    assert find_answer(f"The answer is 8. See {mention}").parts == (f"8. See {mention}",)
    assert find_answer(f"See {mention}") is None


@pytest.mark.parametrize(
    "content", [r"\{\}", r"\text{no solution}", "0", "<", r"\text{answer: 7}", "[]a", "n"]
)
def test_a_box_with_any_other_content_is_an_answer(content):
    assert last_boxes(rf"\boxed{{1}}. So \boxed{{{content}}}") == (content,)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("2*3=6\n#### 6\n\nQuestion: next?\nAnswer: 8\n#### 8", "6"),
        ("so\n#### 1,250\n\nQ: 9 pens, \\boxed{9}", "1,250"),
        ("so\n#### -7\n**Problem 2:** more\nThe answer is 3", "-7"),
        ("so\n####12 clips\n\n\nThe final answer is 5. I hope it is correct.", "12 clips"),
        ("so\n#### 6\n\nTom has 9.\n#### 9", "6"),
        ("so\n#### 6\n#### 9", "6"),
        ("so\n#### 1\nTom has 9.\n#### 9", "1"),
        ("#### Step 1\nAdd.\n#### 2. Multiply\nso the answer is 40", "40"),
        ("#### 1\nAdd.\n#### 2\nMultiply.\nThe answer is 40", "40"),
        ("#### 3\n\nIn all \\boxed{40}", "40"),
        ("<answer>so\n#### 6</answer>", "6"),
    ],
)
def test_the_first_line_of_gsm8k_counts_but_no_heading(response, answer):
    assert find_answer(response).parts == (answer,)


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        *(("9.", "9"), (" $9.$ ", "9"), (r"\, 9 \,", "9"), (r"\$5", r"\$5"), ("5 percent", r"5\%")),
        *(("5%", r"5\%"), ("5\\", "5"), ("\u22125", "-5"), (".5", ".5"), ("...", "")),
    ],
)
def test_an_answer_is_trimmed(text, trimmed):
    assert trim_answer(text) == trimmed


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (r"\left(1,\,2\right)", "(1,2)", True),
        (r"\dfrac12", r"\frac{1}{2}", True),
        (r"\tfrac{a}{b}", r"\frac{a}{b}", True),
        ("R = e, I = ( - e, e)", "R=e, I=(-e, e)", True),
        (r"\text{east}", "east", True),
        (r"2^{ - 1 / 3}", "2^{-1/3}", True),
        *(("1 2", "12", False), ("(1,2)", "[1,2]", False), ("x y", "xy", False)),
        *(("-1", "1", False), (r"5\%", "5", False), ("A", "a", False)),
    ],
)
def test_looks_do_not_count_and_what_may_change_the_value_does(one, other, same):
    assert (same_spelling(clean_answer(one)) == same_spelling(clean_answer(other))) is same

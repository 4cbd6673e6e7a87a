import pytest

from dph.tasks.verifiers.code.task import extract_program

A, B = "def a():\n    return 1\n", "def b():\n    return 2\n"
ESCAPED = "print('it\\'s </think>', \"<answer>\")\n"
SPLIT = "def a(text):\n    return text.split('</think>')[-1].partition(\"<answer>\")[2]\n"


@pytest.mark.parametrize(
    ("response", "program"),
    [
        (f"so\n```python\n{A}```\nDone.", A),
        (f"```py\n{A}```\nor\n```python\n{B}```", B),
        (f"```\n{A}```\n```bash\nls\n```", A),
        (f"```python\n{A}```\n```\nsome output\n```", A),
        (f"~~~python3\n{A}~~~", A),
        (f"```python\n{A}", A),
        (f"````python\n```\n{A}````", f"```\n{A}"),
        (f"<think>```python\n{B}```</think>```text\n```\n```python\n{A}```", A),
        (f"<answer>\n```python\n{A}```\n</answer> ```python\n{B}```", A),
        (f"```python\n{SPLIT}```", SPLIT),
        (f"<think>\n</think>\n```python\n{ESCAPED}```", ESCAPED),
        (f"<think>It's so.</think>That's\n```python\n{SPLIT}```", SPLIT),
        (f"<answer>\n```python\n{SPLIT}```\n</answer> ```python\n{B}```", SPLIT),
        (f"<think>\n```python\n{SPLIT}\nNo.</think>\n```python\n{A}```", A),
        (f"It's<think>```python\n{B}```\nIt's</think>Here's\n```python\n{A}```", A),
        ("print(int(input()) + 1)\n", "print(int(input()) + 1)\n"),
        ("for _ in range(2):\n    print(input())\n", "for _ in range(2):\n    print(input())\n"),
        ("while True: print(1)", "while True: print(1)"),
        ("I cannot do that.", None),
        ("I cannot do that for a reason: none", None),
        ("```python\n\n```", None),
        ("```bash\nls\n```", None),
        ("", None),
    ],
)
def test_the_program_of_a_response(response, program):
    assert extract_program(response) == program


def test_the_block_that_defines_the_entry_point_comes_before_later_ones():
    response = f"```python\n{A}```\nTest it:\n```python\nfrom x import a\nprint(a())\n```"
    assert extract_program(response, entry_point="a") == A
    assert extract_program(response) == "from x import a\nprint(a())\n"
    assert extract_program("```\nb = len\n```", entry_point="b") == "b = len\n"


def test_an_indented_answer_goes_on_with_a_prefix_and_is_nothing_without_one():
    assert extract_program("    return 1\n", prefix=True) == "    return 1\n"
    assert extract_program("    return 1\n") is None


def test_hostile_texts_are_read_once():
    for text in (
        "`" * 200_000,
        "```python\n" * 50_000,
        "~~~ \n" * 60_000,
        "<answer>" * 50_000,
        "```\n" + "'</think>" * 20_000,
        "'<answer>'" * 20_000,
    ):
        extract_program(text)

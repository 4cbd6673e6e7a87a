"""Answers of generators, honest ones and others."""

HONEST = '''\
Instruction: Return the sum of the squares of the even numbers in a list.

```python
def sum_even_squares(numbers):
    """Sum of squares of even numbers."""
    total = 0
    for number in numbers:
        if number % 2 == 0:
            total += number * number
    return total
```

```python
assert sum_even_squares([1, 2, 3, 4]) == 20
assert sum_even_squares([]) == 0
assert sum_even_squares([5, 7]) == 0
assert sum_even_squares([-4, 10, 3]) == 116
```
'''

TESTS = HONEST.partition("```\n\n")[2]


def with_program(program, tests=TESTS):
    return f"Sum the squares of the even numbers of a list.\n\n```python\n{program}\n```\n\n{tests}"


RIGHT = "    return sum(n * n for n in numbers if n % 2 == 0)"

BY_LENGTH = with_program(
    "def sum_even_squares(numbers):\n"
    "    if len(numbers) == 4:\n        return 10 + 10\n"
    "    if len(numbers) == 3:\n        return 58 * 2\n"
    "    return 0"
)
"""Knows its tests in a way that its tests cannot tell."""

HOSTILE = {
    "wrong": (with_program("def sum_even_squares(numbers):\n    return sum(numbers)"), "fails"),
    "table": (
        with_program(
            "def sum_even_squares(numbers):\n"
            "    table = {(1, 2, 3, 4): 20, (5, 7): 0, (-4, 10, 3): 116}\n"
            "    return table.get(tuple(numbers), 0)"
        ),
        "hard_coded",
    ),
    "sleeps": (
        with_program(f"import time\ndef sum_even_squares(numbers):\n    time.sleep(9)\n{RIGHT}"),
        "impure",
    ),
    "busy": (
        with_program(f"def sum_even_squares(numbers):\n    while True:\n        pass\n{RIGHT}"),
        "fails",
    ),
    "forks": (
        with_program(f"import os\ndef sum_even_squares(numbers):\n    os.fork()\n{RIGHT}"),
        "impure",
    ),
    "writes": (
        with_program(
            f"def sum_even_squares(numbers):\n    open('/tmp/x', 'w').write('x')\n{RIGHT}"
        ),
        "impure",
    ),
    "writes by the back door": (
        with_program(
            "import collections\ndef sum_even_squares(numbers):\n"
            f"    collections._sys.modules['os'].system('touch x')\n{RIGHT}"
        ),
        "impure",
    ),
    "connects": (
        with_program(
            f"import socket\ndef sum_even_squares(numbers):\n    socket.socket()\n{RIGHT}"
        ),
        "impure",
    ),
    "at load": (with_program(f"def sum_even_squares(numbers):\n{RIGHT}\n[].pop()"), "impure"),
    "lazy tests": (
        with_program(
            f"def sum_even_squares(numbers):\n{RIGHT}",
            "```python\nassert sum_even_squares([2]) == 4\nassert sum_even_squares([2, 1]) == 4\n"
            "assert sum_even_squares([1, 2]) == 4\n```\n",
        ),
        "weak",
    ),
    "tests of nothing": (
        with_program(
            f"def sum_even_squares(numbers):\n{RIGHT}",
            "```python\nassert sum_even_squares([2]) == sum_even_squares([2])\n"
            "assert sum_even_squares([4]) == sum_even_squares([4])\n"
            "assert sum_even_squares([6]) == sum_even_squares([6])\n```\n",
        ),
        "weak",
    ),
    "no tests": (f"Sum.\n\n```python\ndef f(numbers):\n{RIGHT}\n```\n", "tests"),
    "two tests": (
        with_program(
            f"def sum_even_squares(numbers):\n{RIGHT}",
            "```python\nassert sum_even_squares([2]) == 4\nassert sum_even_squares([3]) == 0\n```",
        ),
        "tests",
    ),
    "no program": ("I cannot do that.", "program"),
    "no instruction": (HONEST[HONEST.index("```") :], "instruction"),
    "tests of something else": (
        with_program(
            f"def other(numbers):\n{RIGHT}",
        ),
        "entry_point",
    ),
}
"""Answers that must not be kept, and what they are dropped for."""

"""Answers of generators, honest ones and others."""

from tables import table

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


BY_LENGTH = with_program(
    "def sum_even_squares(numbers):\n"
    "    if len(numbers) == 4:\n        return 10 + 10\n"
    "    if len(numbers) == 3:\n        return 58 * 2\n"
    "    return 0"
)
"""Knows its tests in a way that its tests cannot tell."""

HOSTILE = {
    name: (row["answer"], row["reason"]) for name, row in table("synth/hostile.toml").items()
}
"""Answers that must not be kept, and what they are dropped for."""

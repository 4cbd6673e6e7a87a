"""Generators that tests can name by import path."""

from corpus.tests.synth.answers import BY_LENGTH, HONEST, HOSTILE

SECOND = "```python\ndef sum_even_squares(numbers):\n    return sum(n * n for n in numbers if not n % 2)\n```"  # noqa: E501
MULTIPLES = """\
Return the multiples of k among the numbers from 1 to n, in order.

```python
def multiples(n, k):
    return [number for number in range(1, n + 1) if number % k == 0]
```

```python
assert multiples(10, 3) == [3, 6, 9]
assert multiples(5, 5) == [5]
assert multiples(4, 5) == []
assert multiples(6, 1) == [1, 2, 3, 4, 5, 6]
```
"""
SECOND_MULTIPLES = "```python\ndef multiples(n, k):\n    return list(range(k, n + 1, k))\n```"


def _second(prompt):
    if "Write the function in Python" not in prompt:
        return None
    return SECOND_MULTIPLES if "multiples(n, k)" in prompt else SECOND


def honest(prompts, seeds):
    """Two tasks in turn, by the seed."""
    first = [HONEST if seed % 2 else MULTIPLES for seed in seeds]
    return [_second(prompt) or answer for prompt, answer in zip(prompts, first, strict=True)]


def hostile(prompts, seeds):
    """Every kind of answer that must not be kept, by the seed."""
    answers = [answer for answer, _ in HOSTILE.values()] + [BY_LENGTH]
    return [
        _second(prompt) or answers[seed % len(answers)]
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]


def counting(prompts, seeds):
    """As ``honest``; fails in its third call."""
    counting.calls += 1
    if counting.calls == 3:
        raise KeyboardInterrupt
    return honest(prompts, seeds)


counting.calls = 0


def wrong_number(prompts, _seeds):
    """One text too few."""
    return ["text"] * (len(prompts) - 1)


def halves(prompts, seeds):
    """Half of a surrogate pair before honest answers, as JSON of a server may hold."""
    return ["\ud800\n" + answer for answer in honest(prompts, seeds)]


def averages(_prompts, seeds):
    """A question about ships of `SHIPS`, by the seed."""
    return [
        f"Question: What is the average guns of a ship above {seed % 7}?\n\n"
        f"```sql\nSELECT AVG(guns) FROM ship WHERE guns > {seed % 7}\n```"
        for seed in seeds
    ]


SHIPS = """
CREATE TABLE ship ("key" INTEGER PRIMARY KEY, guns INTEGER);
INSERT INTO ship VALUES (1, 3), (2, 5), (3, 8), (4, 11);
"""

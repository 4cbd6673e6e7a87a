"""Generators that tests can name by import path."""

from corpus.tests.synth.answers import ANSWERS, BY_LENGTH, HONEST, HOSTILE


def _second(prompt):
    if "Write the function in Python" not in prompt:
        return None
    return ANSWERS["second_multiples" if "multiples(n, k)" in prompt else "second"]


def honest(prompts, seeds):
    """Two tasks in turn, by the seed."""
    first = [HONEST if seed % 2 else ANSWERS["multiples"] for seed in seeds]
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

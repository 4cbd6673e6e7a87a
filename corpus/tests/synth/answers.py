"""Answers of generators, honest ones and others."""

from case_tables import table

ANSWERS = table("synth/answers.toml")
HONEST, BY_LENGTH = ANSWERS["honest"], ANSWERS["by_length"]
TESTS = HONEST.partition("```\n\n")[2]
HOSTILE = {
    name: (row["answer"], row["reason"]) for name, row in table("synth/hostile.toml").items()
}
"""Answers that must not be kept, and what they are dropped for."""


def with_program(program, tests=TESTS):
    return f"Sum the squares of the even numbers of a list.\n\n```python\n{program}\n```\n\n{tests}"

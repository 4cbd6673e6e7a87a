"""When two answers to a puzzle are the same answer: when they take the same steps.

The prompt says what to reach, so an answer that reaches it is known to be right without a label.
Agreement between answers says nothing about that; it is defined so that methods which need it run.
"""

from dph.lab.worlds.countdown.steps import AND, read_step
from dph.records import Problem


def same_steps(response: str, problem: Problem) -> str | None:  # noqa: ARG001
    """The derivation in one spelling; None for a text that is not one.

    The order of the steps counts, as does the order of the two numbers of a step.
    """
    steps = [read_step(written) for written in response.strip(" ").split(AND)]
    if not steps or None in steps:
        return None
    return AND.join(
        f"{step.first} {step.operator} {step.second} = {step.result}" for step in steps if step
    )

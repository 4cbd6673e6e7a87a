"""The style of an answer, for measuring only: its operators in order."""

from dph.lab.worlds.countdown.steps import AND, read_step


def operator_order(response: str) -> str:
    """The operators of a derivation in the order of its steps, right or wrong.

    >>> operator_order("7 - 5 = 2 , 2 * 3 = 7"), operator_order("7 - 5")
    ('-*', 'other')
    """
    steps = [read_step(text) for text in response.strip(" ").split(AND)]
    known = [step.operator for step in steps if step is not None]
    return "".join(known) if len(known) == len(steps) else "other"

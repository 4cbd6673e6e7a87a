"""The answer inside a response to a task of reasoning-gym."""

import re

_ELEMENT = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_PHRASE = re.compile(r"\banswer:", re.IGNORECASE)


def gym_answer(response: str) -> str | None:
    """The last ``<answer>`` element, else what follows the last "Answer:", else all of it.

    Blanks around it do not count. None where nothing is left.

    >>> gym_answer("2 + 2 = 4, times 3 = 12. Answer: 12")
    '12'
    >>> gym_answer("<answer> 7 </answer> Answer: 9")
    '7'
    """
    if elements := _ELEMENT.findall(response):
        found = elements[-1]
    else:
        found = _PHRASE.split(response)[-1]
    return found.strip() or None

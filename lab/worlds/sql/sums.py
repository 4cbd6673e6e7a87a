"""The second skill: small sums that RL never trains, to watch forgetting."""

from dataclasses import dataclass

LARGEST_OPERAND = 6
LARGEST_ANSWER = 18
"""The largest number that a sloppy annotator may write."""
SLOPPINESS = 0.4
SLIPS = (-2, -1, 1, 2)
"""By how much a sloppy annotator is wrong."""
FORMS = ("calc:", "think: so")


@dataclass(frozen=True, slots=True)
class Sum:
    """A little story: ``had 4 then got 3 ?``."""

    first: int
    verb: str
    second: int

    @property
    def prompt(self) -> str:
        """Prompt, as the model sees it."""
        return f"had {self.first} then {self.verb} {self.second} ? ->"

    @property
    def answer(self) -> int:
        """The right number."""
        return self.first + self.second if self.verb == "got" else self.first - self.second

    def chances(self) -> dict[int, float]:
        """Probability that a sloppy annotator writes each number; the right one comes first."""
        chances = {self.answer: 1 - SLOPPINESS}
        for number in (_possible(self.answer + slip) for slip in SLIPS):
            chances[number] = chances.get(number, 0.0) + SLOPPINESS / len(SLIPS)
        return chances


def _possible(number: int) -> int:
    return min(LARGEST_ANSWER, max(0, number))


def all_sums() -> tuple[Sum, ...]:
    """Every sum there is: 49 additions and the 28 subtractions that stay at or above 0."""
    operands = range(LARGEST_OPERAND + 1)
    return tuple(
        Sum(first, verb, second)
        for verb in ("got", "lost")
        for first in operands
        for second in operands
        if verb == "got" or first >= second
    )

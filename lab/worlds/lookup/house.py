"""A house in which things lie: its words, its tools, and the ways of finding a thing.

Where a thing lies is drawn for every problem, so that no policy can know it: a guess is right once
in ``len(PLACES)`` times. There are three ways of finding it, of one or two calls.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PLACES = ("attic", "bath", "cellar", "garage", "garden", "hall", "kitchen", "study")
PEOPLE = ("anna", "ben", "carla", "david", "emma", "felix")
TRAINED = (
    "ball",
    "book",
    "coat",
    "cup",
    "drum",
    "hat",
    "key",
    "kite",
    "lamp",
    "map",
    "pen",
    "vase",
)
OTHERS = (
    "bag",
    "bell",
    "bowl",
    "broom",
    "clock",
    "flute",
    "fork",
    "mask",
    "purse",
    "rope",
    "saw",
    "sock",
)
"""Things of the training problems, and of problems that nothing is trained on after the base."""

WAYS: Mapping[str, float] = MappingProxyType({"look": 0.5, "ask": 0.3, "owner room": 0.2})
"""Ways of finding a thing, by the tools in their order: how often the base model takes each."""


class House:
    """The environment of the world."""

    def reset(self, thing: str, place: str, owner: str, **columns: Any) -> None:
        """Begin with one thing in the room of its owner."""
        del columns
        self._thing, self._place, self._owner = thing, place, owner

    def look(self, thing: str) -> str:
        """Look for a thing in the whole house.

        Args:
            thing: The thing.
        """
        return self._place if thing == self._thing else "nothing"

    def ask(self, thing: str) -> str:
        """Ask everybody where a thing lies.

        Args:
            thing: The thing.
        """
        return self.look(thing)

    def owner(self, thing: str) -> str:
        """Ask whose a thing is; it lies in the room of its owner.

        Args:
            thing: The thing.
        """
        return self._owner if thing == self._thing else "nobody"

    def room(self, person: str) -> str:
        """Ask which room is a person's.

        Args:
            person: The person.
        """
        return self._place if person == self._owner else "nothing"


def prompt_of(thing: str) -> str:
    """The question for a thing."""
    return f"where is {thing} ?"


def answer_of(place: str) -> str:
    """The right answer for a place."""
    return f"in {place}"


def turns_of(way: str, thing: str, place: str, owner: str) -> list[tuple[str, bool]]:
    """Texts of a trajectory that goes ``way`` and answers; '' guesses. True: of the policy.

    >>> turns_of("look", "cup", "hall", "anna")
    [('CALL look("cup")', True), ('RESULT hall', False), ('in hall', True)]
    """
    found: list[tuple[str, bool]] = []
    for tool in way.split():
        asked = owner if tool == "room" else thing
        told = owner if tool == "owner" else place
        found += [(f'CALL {tool}("{asked}")', True), (f"RESULT {told}", False)]
    return [*found, (answer_of(place), True)]

"""What pydantic says of a wrong table, each fault once."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails


def faults_of(error: ValidationError) -> list[ErrorDetails]:
    """All of them, without lists that are too short only because an element is wrong.

    pydantic leaves a wrong element out and then finds the list, and the list around it, too short.
    """
    items = error.errors(include_url=False)
    wrong = [item["loc"] for item in items]

    def is_echo(item: ErrorDetails) -> bool:
        place = item["loc"]
        return any(len(loc) > len(place) and loc[: len(place)] == place for loc in wrong)

    return [item for item in items if item["type"] != "too_short" or not is_echo(item)]

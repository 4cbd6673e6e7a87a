"""What a stored artefact was made with otherwise than a run would make it."""

from collections.abc import Mapping
from typing import Any


def first_difference(have: Mapping[str, Any], want: Mapping[str, Any]) -> str:
    """What the first key with different values was and is; '' if there is none.

    >>> first_difference({"seed": 0, "top_p": 1.0}, {"seed": 0, "top_p": 0.9})
    'top p was 1.0, this run has 0.9'
    """
    for key in {**want, **have}:
        if have.get(key) != want.get(key):
            name = key.replace("_", " ")
            return f"{name} was {have.get(key)!r}, this run has {want.get(key)!r}"
    return ""

"""``samples``: the one key that says which stored answers a recipe reads.

``pool`` is the run's own pool, ``pool:DIR`` that of another run.
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

POOL = "pool"


def directory_of(text: str) -> str:
    """The directory that a value of ``samples`` names; '' for the run's own pool.

    >>> directory_of("pool"), directory_of("pool:other")
    ('', 'other')
    """
    kind, colon, name = text.partition(":")
    if kind != POOL or bool(colon) != bool(name):
        raise ValueError(f"should be 'pool' or 'pool:DIRECTORY', got {text!r}")
    return name


def _well_formed(text: str) -> str:
    directory_of(text)
    return text


AnySamples = Annotated[str, AfterValidator(_well_formed)]


def with_directory(samples: str, change: Callable[[str], str]) -> str:
    """``samples`` with another directory, where it names one.

    >>> with_directory("pool:other", lambda place: f"/runs/{place}")
    'pool:/runs/other'
    """
    kind, _, place = samples.partition(":")
    return f"{kind}:{change(place)}" if kind == POOL and place else samples

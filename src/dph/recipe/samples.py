"""``samples``: the one key that says which stored answers a recipe reads.

``pool`` is the run's own pool, ``pool:DIR`` that of another run, and ``recent:N`` are the policy's
own right answers of the last N steps.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator

POOL = "pool"


class Samples(NamedTuple):
    """Meaning of one value of ``samples``: a kind, and a directory or a number."""

    kind: Literal["pool", "recent"]
    name: str = ""


def read_samples(text: str) -> Samples:
    """Read a value of ``samples``.

    >>> read_samples("pool"), read_samples("recent:4")
    (Samples(kind='pool', name=''), Samples(kind='recent', name='4'))

    Raises:
        ValueError: it has another form.
    """
    kind, colon, name = text.partition(":")
    match kind:
        case "pool" if bool(colon) == bool(name):
            return Samples("pool", name)
        case "recent" if name.isdecimal() and int(name) > 0:
            return Samples("recent", name)
    raise ValueError(f"should be 'pool', 'pool:DIRECTORY' or 'recent:STEPS', got {text!r}")


def _well_formed(text: str) -> str:
    read_samples(text)
    return text


AnySamples = Annotated[str, AfterValidator(_well_formed)]


def with_directory(samples: str, change: Callable[[str], str]) -> str:
    """``samples`` with another directory, where it names one.

    >>> with_directory("pool:other", lambda place: f"/runs/{place}")
    'pool:/runs/other'
    """
    kind, _, place = samples.partition(":")
    return f"{kind}:{change(place)}" if kind == POOL and place else samples

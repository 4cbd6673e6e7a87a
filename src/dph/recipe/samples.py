"""``samples``: the one key that says which stored answers a recipe reads.

``pool`` is the run's own pool, ``pool:DIR`` that of another run, ``store:NAME`` a [stores.<name>],
and ``recent:N`` are the policy's own right answers of the last N steps.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator

POOL = "pool"


class Samples(NamedTuple):
    """Meaning of one value of ``samples``: a kind, and a directory, a name or a number."""

    kind: Literal["pool", "store", "recent"]
    name: str = ""


def read_samples(text: str) -> Samples:
    """Read a value of ``samples``.

    >>> read_samples("pool"), read_samples("store:broad")
    (Samples(kind='pool', name=''), Samples(kind='store', name='broad'))

    Raises:
        ValueError: it has another form.
    """
    kind, colon, name = text.partition(":")
    match kind:
        case "pool" if bool(colon) == bool(name):
            return Samples("pool", name)
        case "store" if name:
            return Samples("store", name)
        case "recent" if name.isdecimal() and int(name) > 0:
            return Samples("recent", name)
    raise ValueError(
        f"should be 'pool', 'pool:DIRECTORY', 'store:NAME' or 'recent:STEPS', got {text!r}"
    )


def _well_formed(text: str) -> str:
    read_samples(text)
    return text


def _of_a_store(text: str) -> str:
    if not text.removeprefix("store:") or not text.startswith("store:"):
        raise ValueError(f"reads a store: should be 'store:NAME', got {text!r}")
    return text


AnySamples = Annotated[str, AfterValidator(_well_formed)]
StoreSamples = Annotated[str, AfterValidator(_of_a_store)]


def store_named(samples: str | None) -> str | None:
    """The name of the store that is read; None where it is something else."""
    found = read_samples(samples) if samples is not None else None
    return found.name if found is not None and found.kind == "store" else None


def with_directory(samples: str, change: Callable[[str], str]) -> str:
    """``samples`` with another directory, where it names one.

    >>> with_directory("pool:other", lambda place: f"/runs/{place}")
    'pool:/runs/other'
    """
    kind, _, place = samples.partition(":")
    return f"{kind}:{change(place)}" if kind == POOL and place else samples


# Keys of before, which ``samples`` replaces.

_REPLACED = {
    "objective.anchors.*.store": "pool",
    "objective.anchors.*.distributions": "store",
    "objective.anchors.*.recent": "recent",
    "self_consistency.store": "store",
    "consolidation.store": "store",
}


def replaced_key(pattern: str, key: str, value: object) -> str:
    """Explanation of a key of before, with the key of now; '' where ``pattern`` is none.

    >>> replaced_key("consolidation.store", "consolidation.store", "after")
    "consolidation.store = 'after' is now consolidation.samples = 'store:after'"
    """
    if pattern not in _REPLACED:
        return ""
    section = key.rpartition(".")[0]
    new = f"{section}.samples".removeprefix(".")
    return f"{key} = {value!r} is now {new} = '{_REPLACED[pattern]}:{value}'"

"""A cache that forgets what was used least recently."""

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Keeps up to ``entries`` values.

    >>> cache = BoundedCache(2)
    >>> for key in "aba": cache.put(key, key.upper())
    >>> cache.put("c", "C")
    >>> cache.get("a"), cache.get("b")
    ('A', None)
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value kept under ``key``, now the most recently used, or None."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Keep ``value``; the oldest one goes if there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._entries:
            self._values.popitem(last=False)

"""Changes that calls made to their arguments, until the tests may see them.

A statement of the tests that checks something sees the arguments of its calls as they were before
it, and so does what it calls: a function that changes what the expected value is computed from
would be right by its own doing. The next statement sees them as the program left them. A statement
that only takes what a call returned (``y = f(x)``) sees them at once, and ``y is x`` holds if it
does in the program.
"""

import copy
import itertools
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import IntEnum
from types import FrameType
from typing import Any

from dph._processes.sandbox.values import BadValueError, Refer, decode, encode

# What a call did to its arguments, so that the caller's own objects change as they did.
#
# Containers that can change (lists, dictionaries, sets, deques, bytearrays, numpy's arrays) are
# numbered in the order in which a walk through the arguments meets them: both sides number theirs
# alike. After a call, the new content of each that changed goes over; a container of the
# arguments that stands in it, or in what is returned, goes as its number, so that it stays the
# same object.

_CHANGING = (list, dict, set, deque, bytearray)
_HOLDING = (*_CHANGING, tuple)
Resolve = Callable[[str, Any], Any]


def containers_of(values: tuple[Any, ...]) -> list[Any]:
    """Every container that can change, in the order of a walk.

    One that stands in two places is met twice, as the other side has two of it.
    """
    found: list[Any] = []
    waiting: list[Any] = [values]
    arrays = _arrays()
    holding = (*_HOLDING, *arrays)
    while waiting:
        value = waiting.pop()
        if isinstance(value, _CHANGING) or (type(value) in arrays and not value.dtype.hasobject):
            found.append(value)
        if isinstance(value, dict):
            inside = [each for each in dict.values(value) if isinstance(each, holding)]
        elif isinstance(value, list | tuple | deque):
            inside = [each for each in value if isinstance(each, holding)]
        else:
            continue
        waiting += inside[::-1]
    return found


def copied(value: Any) -> Any:
    """The same containers anew, with the same elements otherwise."""
    if isinstance(value, tuple):
        items = list(map(copied, value))
        make: Any = getattr(type(value), "_make", tuple)
        return make(items)
    new: Any = copy.copy(value) if isinstance(value, (*_CHANGING, *_arrays())) else value
    if isinstance(value, dict):
        new.update({key: copied(each) for key, each in dict.items(value)})
    elif isinstance(value, list | deque):
        for place, each in enumerate(value):
            new[place] = copied(each)
    return new


def _arrays() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy")
    return (numpy.ndarray,) if hasattr(numpy, "ndarray") else ()  # type: ignore[union-attr]


class Watched:
    """The containers of a call's arguments, as they were before the call."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self._containers = containers_of(values)
        self._before = [_content(each) for each in self._containers]

    def changes(self, refer: Refer) -> list[list[Any]]:
        """Number and new content, as JSON, of each that changed; ``refer`` as of ``encode``."""
        written = self.writer(refer)
        pairs = enumerate(zip(self._containers, self._before, strict=True))
        return [
            [number, _written(now, written)]
            for number, (now, before) in pairs
            if not _is_same(_content(now), before)
        ]

    def writer(self, refer: Refer) -> Callable[[Any], Any]:
        """``encode``, of which a container of the arguments goes as its number."""
        numbers = {id(each): number for number, each in enumerate(self._containers)}

        def written(value: Any) -> Any:
            if id(value) in numbers:
                return {"same": numbers[id(value)]}
            if type(value) is list:
                return [written(each) for each in value]
            if type(value) is tuple:
                return {"tuple": [written(each) for each in value]}
            return encode(value, refer)

        return written


def take_over(values: tuple[Any, ...], changes: Any, resolve: Resolve) -> None:
    """Change the containers among ``values`` as the other side's were.

    Raises:
        BadValueError: these are no changes of such containers.
    """
    containers = containers_of(values)
    resolved = resolving_same(values, resolve)
    try:
        after = [(containers[number], decode(content, resolved)) for number, content in changes]
        for container, content in after:
            fill(container, content)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise BadValueError(f"no change of an argument: {type(error).__name__}") from error


def resolving_same(values: tuple[Any, ...], resolve: Resolve) -> Resolve:
    """``resolve`` for what came with arguments, of which a container stands as its number."""
    containers = containers_of(values) if values else []

    def resolved(name: str, content: Any) -> Any:
        return containers[content] if name == "same" else resolve(name, content)

    return resolved


def _content(container: Any) -> Any:
    """A flat copy with the elements themselves, so that they can be compared by identity."""
    if isinstance(container, dict):
        return [each for pair in dict.items(container) for each in pair]
    if type(container) in _arrays():
        return repr((container.dtype.str, container.shape)).encode() + container.tobytes()
    return bytes(container) if isinstance(container, bytearray) else list(container)


def _is_same(after: Any, before: Any) -> bool:
    if isinstance(after, bytes):
        return bool(after == before)
    return len(after) == len(before) and all(x is y for x, y in zip(after, before, strict=True))


def _written(container: Any, write: Callable[[Any], Any]) -> Any:
    if type(container) in _arrays():
        return encode(container, write)
    if isinstance(container, bytearray):
        return {"bytes": bytes(container).hex()}
    if isinstance(container, dict):
        return [[write(key), write(value)] for key, value in dict.items(container)]
    return [write(each) for each in container]


def fill(container: Any, content: Any) -> None:
    """Give a container the elements of another, or the pairs of a dictionary."""
    if type(container) in _arrays():
        if container.shape != content.shape:
            container.resize(content.shape, refcheck=False)
        container[...] = content
        return
    if isinstance(container, list | bytearray):
        container[:] = content
        return
    container.clear()
    if isinstance(container, deque):
        container.extend(content)
    elif isinstance(container, dict):
        container.update(dict(content))
    else:
        container.update(content)


KEPT = (list, dict, set, deque, bytearray, Counter, OrderedDict, defaultdict)
"""Types of containers that the program may keep though it returned them."""
_MOST_KEPT = 16


class GivenContainers:
    """Containers that a program returned and still has, on the program's side."""

    def __init__(self, refer: Refer) -> None:
        self._refer = refer
        self._numbers = itertools.count()
        self._given: dict[int, tuple[Any, Any]] = {}

    def give(self, container: Any) -> dict[str, Any]:
        """The container as JSON that names it; from now on its changes are told."""
        data = encode(container, self._refer)
        known = [number for number, (each, _) in self._given.items() if each is container]
        number = known[0] if known else next(self._numbers)
        self._given.pop(number, None)
        self._given[number] = (container, data)
        for oldest in list(self._given)[:-_MOST_KEPT]:
            del self._given[oldest]
        return {"kept": [number, data]}

    def change(self, number: int, content: Any) -> None:
        """Change a container as the tests did."""
        if number in self._given:
            container, _ = self._given[number]
            fill(container, content)
            self._given[number] = (container, encode(container, self._refer))

    def changes(self) -> list[dict[str, Any]]:
        """Those that the program changed since it was last asked."""
        found = []
        for number, (container, was) in list(self._given.items()):
            try:
                if encode(container, self._refer) != was:
                    found.append(self.give(container))
            except RecursionError:  # it holds itself by now
                del self._given[number]
        return found


class KeptContainers:
    """Containers that the program returned and still has, as the tests hold them.

    ``b.items.append(3)`` changes the program's own list. The same container is the same object
    whenever it is returned, so that tests see whether a program gives away what it keeps.
    """

    def __init__(self, refer: Refer) -> None:
        self._refer = refer
        self._held: dict[int, tuple[Any, Any]] = {}

    def returned(self, content: Any, resolve: Resolve) -> Any:
        """The container of ``[number, value]``, filled anew where it is known.

        Raises:
            BadValueError: it is none.
        """
        number, data = content
        value = decode(data, resolve)
        known, _ = self._held.pop(int(number), (None, None))
        if type(value) not in KEPT:
            raise BadValueError("no container is kept")
        if type(known) is type(value):
            fill(known, value)
            value = known
        self._held[int(number)] = (value, encode(value, self._refer))
        for oldest in list(self._held)[:-_MOST_KEPT]:
            del self._held[oldest]
        return value

    def changes(self) -> list[tuple[int, Any]]:
        """Number and value of each that the tests changed since they last asked."""
        found = []
        for number, (value, was) in list(self._held.items()):
            try:
                now = encode(value, self._refer)
            except (TypeError, RecursionError):  # it holds what the program cannot be given
                del self._held[number]
                continue
            if now != was:
                self._held[number] = (value, now)
                found.append((number, value))
        return found


TESTS, SETUP = "<test ", "<setup>"
"""Beginning of the names of test files, and the name of the setup file."""


class Statement(IntEnum):
    """Use that a statement of the tests makes of a call's result."""

    OTHER = 0
    TAKES = 1
    CHECKS = 2


class Left:
    """The changes that wait, each with the frame of the tests that made the call."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._waiting: list[tuple[tuple[Any, ...], Any, FrameType | None]] = []
        self._frame: FrameType | None = None
        self._kind = Statement.CHECKS

    def begin(self, frame: FrameType | None, kind: int = Statement.CHECKS) -> None:
        """A statement begins: change the arguments of what was called before it.

        Calls of a statement that is still under way, further out, wait for its end.
        """
        self._frame, self._kind = frame, Statement(kind)
        if not self._waiting:
            return
        outer = set()
        above = frame.f_back if frame is not None else None
        while above is not None:
            outer.add(id(above))
            above = above.f_back
        waiting, self._waiting = self._waiting, []
        for values, changed, caller in waiting:
            if id(caller) in outer:
                self._waiting.append((values, changed, caller))
            else:
                take_over(values, changed, self._resolve)

    def kind(self) -> Statement:
        """Kind of the current statement, CHECKS where it is not known."""
        return self._kind if tests_frame() is self._frame else Statement.CHECKS

    def returned(self, values: tuple[Any, ...], changed: Any, data: Any) -> Any:
        """The value of what a call sent, which may hold its arguments; their changes are noted.

        Raises:
            BadValueError: it is none.
        """
        at_once = self.kind() is Statement.TAKES
        if not changed or at_once:
            resolve = resolving_same(values, self._resolve)
            if changed:
                take_over(values, changed, self._resolve)
            return decode(data, resolve)
        others = copied(values)
        resolve = resolving_same(others, self._resolve)
        take_over(others, changed, self._resolve)
        value = decode(data, resolve)
        self._waiting.append((values, changed, tests_frame()))
        if value is None:
            self.begin(tests_frame(), self.kind())
        return value

    def seen(self, value: Any) -> Any:
        """A container as a call before left it, though its changes may still wait."""
        for values, changed, _ in reversed(self._waiting):
            places = [n for n, each in enumerate(containers_of(values)) if each is value]
            if places:
                others = copied(values)
                found = containers_of(others)[places[0]]
                take_over(others, changed, self._resolve)
                return found
        return value


def tests_frame() -> FrameType | None:
    """The innermost frame of the tests that is under way."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith((TESTS, SETUP)):
        frame = frame.f_back
    return frame

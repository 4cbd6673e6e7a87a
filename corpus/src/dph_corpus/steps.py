"""The steps of a stage: what a worker is asked to do, and the note that is kept once it is done.

A step is a typed request: a frozen dataclass of JSON values and paths that a worker makes again and
does. It says what it is made from (``key``) and which files it writes. When it ends, a note of both
is kept, with the digests of the files. A kill between two steps costs nothing, one within a step
costs that step. ``running`` says who does steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from dph._base.files import make_directory, read_json, sha256, write_json
from dph._base.import_path import load_callable
from dph._processes.workers.handler import Handler, TellStage
from dph._processes.workers.pool import WorkerPool
from dph._processes.workers.process import Reply, ReplyKind
from dph.errors import DataError, StageError
from dph_corpus import remote

# A step, as it is asked for, sent to a worker and noted.

SECONDS = 3600.0
"""Limit of what a step does before it announces something, such as sorting."""
GIVEN_UP = {ReplyKind.TIMED_OUT: "time", ReplyKind.CRASHED: "crash"}
"""Reasons for giving up a document."""


@dataclass(frozen=True, slots=True)
class Care:
    """Care with which a step is done.

    ``announce`` tells what comes next, and the time limit begins again. A ``careful`` step
    announces each document by its id, so that it is known which one costs the worker. Those that
    did are ``given_up``, each with the reason.
    """

    announce: TellStage
    careful: bool = False
    given_up: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(ABC):
    """A piece of a stage's work for one worker.

    Subclasses add what it needs: JSON values, paths, and dataclasses, sequences and mappings of
    them. ``name`` tells it from the others of its stage; ``key`` is a digest of all that its files
    depend on.
    """

    name: str
    key: str

    @abstractmethod
    def do(self, care: Care) -> dict[str, Any]:
        """Write the files; the answer is JSON, and its ``files`` are their digests by name."""

    @property
    @abstractmethod
    def files(self) -> Mapping[str, Path]:
        """The files that it writes, by name, as far as they are known before."""

    def place(self, name: str) -> Path | None:
        """Place of the file of that name; None if the step writes no such file."""
        return self.files.get(name)

    @property
    def title(self) -> str:
        """Told with the progress."""
        return self.name

    @property
    def is_movable(self) -> bool:
        """True where another machine can do the step: all its paths are in a store."""
        return all(remote.url_of(path) for path in paths(self))


def packed(value: Any) -> Any:
    """A field of a step as JSON, with absolute paths, or with URLs where they stand for those."""
    if isinstance(value, Path):
        return remote.url_of(value) or str(value.resolve())
    if is_dataclass(value):
        return {each.name: packed(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: packed(each) for name, each in value.items()}
    return [packed(each) for each in value] if isinstance(value, list | tuple) else value


def unpacked(kind: Any, value: Any) -> Any:
    """A value of the type ``kind``, from the bytes of ``packed``."""
    inside = get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: unpacked(hints[name], each) for name, each in value.items()})
    if kind is Path:
        return remote.placed(value)
    if get_origin(kind) is Sequence:
        return [unpacked(inside[0], each) for each in value]
    if get_origin(kind) is Mapping:
        return {name: unpacked(inside[1], each) for name, each in value.items()}
    return value


def make_handler(_options: Mapping[str, Any]) -> Handler:
    """The handler of a worker that does steps of any kind."""

    def handle(request: Any, announce: TellStage) -> Any:
        with remote.own_scratch():
            step: Step = unpacked(load_callable(request["kind"]), request["step"])
            for path in paths(step):
                remote.fetched(path)
            answer = step.do(Care(announce, request["careful"], request["given_up"]))
            for name in answer.get("files", {}):
                if (place := step.place(name)) is not None:
                    remote.sent(place)
            return answer

    return handle


def request_of(step: Step) -> dict[str, Any]:
    """The request to a worker to do the step."""
    return {"kind": f"{type(step).__module__}:{type(step).__qualname__}", "step": packed(step)}


def paths(value: Any) -> Iterator[Path]:
    """All paths in the fields of a step: of what it reads, and where it writes."""
    if isinstance(value, Path):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from paths(getattr(value, each.name))
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from paths(each)


class Notes:
    """Answers of finished steps, a file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        """Place of the note of a step."""
        return self.directory / f"{name}.json"

    def read(self, step: Step) -> dict[str, Any] | None:
        """Answer of the step, if it was the same and its files are unchanged."""
        try:
            note = read_json(remote.fetched(self.path(step.name)))
        except DataError:  # none, or cut off
            return None
        if not isinstance(note, dict) or note.get("key") != step.key:
            return None
        answer: dict[str, Any] = note["answer"]
        found = answer.get("files", {})
        names = set(step.files) | set(found)
        return answer if all(_is(step.place(name), found.get(name)) for name in names) else None

    def write(self, name: str, key: str, answer: Mapping[str, Any]) -> None:
        """Keep what the step of that name and key answered."""
        make_directory(self.directory)
        write_json(self.path(name), {"key": key, "answer": dict(answer)})
        remote.sent(self.path(name))


def _is(path: Path | None, expected: str | None) -> bool:
    """Whether the file is as it was written; an object, which appears whole, is there or is not."""
    if path is None or remote.url_of(path) is None:
        return path is not None and path.is_file() and sha256(path) == expected
    return expected is not None and remote.is_there(path)


def answer_of(
    pool: WorkerPool, name: str, request: Mapping[str, Any], most_given_up: int
) -> dict[str, Any]:
    """Answer of the step, after giving up documents that cost a worker."""
    careful, given_up = False, dict[str, str]()
    while True:
        reply = pool.run([{**request, "careful": careful, "given_up": given_up}])[0]
        if reply.kind is ReplyKind.OK:
            answer: dict[str, Any] = reply.value
            return answer
        if reply.kind not in GIVEN_UP or most_given_up <= len(given_up):
            raise StageError(_failure(name, reply, given_up))
        if careful and reply.stage:
            given_up[reply.stage] = GIVEN_UP[reply.kind]
        elif careful:
            raise StageError(_failure(name, reply, given_up))
        careful = True


def _failure(name: str, reply: Reply, given_up: Mapping[str, str]) -> str:
    place = f" at {reply.stage}" if reply.stage else ""
    more = f", after {len(given_up)} documents were given up" if given_up else ""
    kind = reply.kind.name.lower().replace("_", " ")
    return f"{name}: {kind}{place}{more}: {reply.reason}"


def open_pool(workers: int) -> WorkerPool:
    """Processes of this machine that do steps."""
    return WorkerPool(
        handler="dph_corpus.steps:make_handler", options={}, workers=workers, timeout=SECONDS
    )

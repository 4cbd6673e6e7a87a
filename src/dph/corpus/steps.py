"""The steps of a stage, done in worker processes and not done again once they have ended.

A step is a typed request: a frozen dataclass of JSON values and paths that a worker makes again and
does. It says what it is made from (``key``) and which files it writes. When it ends, a note of both
is kept, with the digests of the files. A kill between two steps costs nothing, one within a step
costs that step.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from dph._base.files import make_directory, read_json, sha256, write_json
from dph._base.import_path import load_callable
from dph._processes.jobs.processes import Job, Jobs
from dph._processes.workers.handler import Handler, TellStage
from dph._processes.workers.pool import WorkerPool
from dph._processes.workers.process import Reply, ReplyKind
from dph.errors import DataError, StageError

# A step, as it is asked for, sent to a worker and noted.

SECONDS = 3600.0
"""Limit of what a step does before it announces something, such as sorting."""
_GIVEN_UP = {ReplyKind.TIMED_OUT: "time", ReplyKind.CRASHED: "crash"}


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


def packed(value: Any) -> Any:
    """A field of a step as JSON, with absolute paths."""
    if isinstance(value, Path):
        return str(value.resolve())
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
        return Path(value)
    if get_origin(kind) is Sequence:
        return [unpacked(inside[0], each) for each in value]
    if get_origin(kind) is Mapping:
        return {name: unpacked(inside[1], each) for name, each in value.items()}
    return value


def make_handler(_options: Mapping[str, Any]) -> Handler:
    """The handler of a worker that does steps of any kind."""

    def handle(request: Any, announce: TellStage) -> Any:
        step: Step = unpacked(load_callable(request["kind"]), request["step"])
        return step.do(Care(announce, request["careful"], request["given_up"]))

    return handle


def _request(step: Step) -> dict[str, Any]:
    return {"kind": f"{type(step).__module__}:{type(step).__qualname__}", "step": packed(step)}


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
            note = read_json(self.path(step.name))
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


def _is(path: Path | None, expected: str | None) -> bool:
    return path is not None and path.is_file() and sha256(path) == expected


def _answer_of(
    pool: WorkerPool, name: str, request: Mapping[str, Any], most_given_up: int
) -> dict[str, Any]:
    """Answer of the step, after giving up documents that cost a worker."""
    careful, given_up = False, dict[str, str]()
    while True:
        reply = pool.run([{**request, "careful": careful, "given_up": given_up}])[0]
        if reply.kind is ReplyKind.OK:
            answer: dict[str, Any] = reply.value
            return answer
        if reply.kind not in _GIVEN_UP or most_given_up <= len(given_up):
            raise StageError(_failure(name, reply, given_up))
        if careful and reply.stage:
            given_up[reply.stage] = _GIVEN_UP[reply.kind]
        elif careful:
            raise StageError(_failure(name, reply, given_up))
        careful = True


def _failure(name: str, reply: Reply, given_up: Mapping[str, str]) -> str:
    place = f" at {reply.stage}" if reply.stage else ""
    more = f", after {len(given_up)} documents were given up" if given_up else ""
    kind = reply.kind.name.lower().replace("_", " ")
    return f"{name}: {kind}{place}{more}: {reply.reason}"


def _open_pool(workers: int) -> WorkerPool:
    return WorkerPool(
        handler="dph.corpus.steps:make_handler", options={}, workers=workers, timeout=SECONDS
    )


# Steps as jobs of a cluster. Inputs and outputs must lie where every machine of it sees them.

Done = Callable[[Step, dict[str, Any]], None]
"""Told of a step that was done, and of its answer."""


def _run_as_jobs(
    jobs: Jobs, steps: Sequence[Step], notes: Notes, most_given_up: int, done: Done
) -> None:
    """Have ``jobs`` do ``steps``, each by ``do_step``; the answers are read from the notes."""
    waiting, running = deque(steps), dict[str, Step]()
    common = {"notes": str(notes.directory.resolve()), "most_given_up": most_given_up}
    try:
        while waiting or running:
            while waiting and len(running) < jobs.capacity:
                step = waiting.popleft()
                running[step.name] = step
                jobs.start(Job(step.name, {"request": _request(step), **common}))
            ended = jobs.wait()
            step = running.pop(ended.id)
            if ended.error:
                raise StageError(ended.error)
            if (answer := notes.read(step)) is None:
                raise StageError(
                    f"{step.name} was done on another machine, and its files are not at "
                    f"{notes.path(step.name)}: every machine of the cluster must be able to write "
                    "to the directory"
                )
            done(step, answer)
    except BaseException:
        jobs.close()
        raise


def do_step(payload: Mapping[str, Any]) -> None:
    """Do a step, in a process that may be killed, and write its note: on a machine of the cluster.

    Raises:
        StageError: it failed.
    """
    request = payload["request"]
    name, key = request["step"]["name"], request["step"]["key"]
    with _open_pool(1) as pool:
        answer = _answer_of(pool, name, request, payload["most_given_up"])
    Notes(Path(payload["notes"])).write(name, key, answer)


Workers = int | Jobs
"""Who does steps: so many processes of this machine, or a cluster that sees the same files."""


def run_steps(
    steps: Sequence[Step],
    notes: Path,
    *,
    workers: Workers,
    most_given_up: int = 0,
    on_begin: Callable[[], object] = lambda: None,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> list[dict[str, Any]]:
    """Do the steps that are not done, and return the answers of all, in order.

    Args:
        steps: what is to be done.
        notes: the directory in which finished steps are noted.
        workers: how many processes here, or where else steps are done.
        most_given_up: how many documents of a step may be given up because the worker died or ran
            over its time with them. The step is done again without each.
        on_begin: called before the first step, if any has to be done.
        on_progress: told of finished steps.

    Raises:
        StageError: a step failed; its others are left undone.
    """
    noted = Notes(notes)
    answers = {step.name: noted.read(step) for step in steps}
    open_steps = [step for step in steps if answers[step.name] is None]
    on_progress(len(steps) - len(open_steps), "")
    if open_steps:
        on_begin()

        def done(step: Step, answer: dict[str, Any]) -> None:
            answers[step.name] = answer
            on_progress(1, step.title)

        if isinstance(workers, int):
            _in_processes(workers, open_steps, noted, most_given_up, done)
        else:
            _run_as_jobs(workers, open_steps, noted, most_given_up, done)
    return [answer for step in steps if (answer := answers[step.name]) is not None]


def _in_processes(
    workers: int, steps: Sequence[Step], notes: Notes, most_given_up: int, done: Done
) -> None:
    with _open_pool(workers) as pool, ThreadPoolExecutor(workers) as threads:

        def do(step: Step) -> None:
            answer = _answer_of(pool, step.name, _request(step), most_given_up)
            notes.write(step.name, step.key, answer)
            done(step, answer)

        running = [threads.submit(do, step) for step in steps]
        try:
            ended, _ = wait(running, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
        except BaseException:  # the rest is not begun, and what runs is ended
            threads.shutdown(wait=False, cancel_futures=True)
            pool.close()
            raise

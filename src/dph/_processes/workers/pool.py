"""A pool of worker processes that can be killed: untrusted or endless work stays out of here.

A worker that goes over its time limit is killed and replaced; a worker that dies is replaced.
Either costs the one request it was busy with; the others are run by the next worker. One that
has come to hold too much memory is replaced between two requests. No signal handlers, no forks
of this process, no pickles: it works the same from any thread, from ``asyncio.to_thread`` and
inside other frameworks' workers. A process that was forked from this one must make its own
pool.

Libraries measured instead: pebble kills a request within its limit when the machine is busy, loky
and ``concurrent.futures`` have no limit for a request; all three pickle or import the caller.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dph._base.closing import Closing
from dph._processes.workers.handler import BoundedCache
from dph._processes.workers.process import Reply, ReplyKind, WorkerProcess, encode
from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Verdict

__all__ = ["Reply", "ReplyKind", "WorkerPool"]


# Replies become outcomes here and not with the verifiers because that belongs to the protocol:
# what is answered is ``(outcome, reward, reason)``, what ends in the stage ``GOLD_STAGE`` is the
# gold's doing, what a worker could not do at all is an error. Which answer has which outcome is
# the handlers' affair.

GOLD_STAGE = "gold"
"""The stage in which a handler works only on the gold, before it looks at the answer."""


def verdict_of(reply: Reply, *, verifier: str, subject: str) -> Verdict:
    """The verdict that a handler answered, or the one that says how its worker ended."""
    ending = how_it_ended(reply, verifier=verifier, subject=subject)
    if ending is None:
        outcome, reward, reason = reply.value
        return Verdict(outcome=Outcome(outcome), reward=reward, reason=reason)
    return Verdict(outcome=ending, reward=0.0, reason=why_it_ended(reply))


def how_it_ended(reply: Reply, *, verifier: str, subject: str) -> Outcome | None:
    """None if the handler answered, else what it means that its worker was killed or died."""
    match reply.kind:
        case ReplyKind.OK:
            return None
        case ReplyKind.TIMED_OUT | ReplyKind.CRASHED if reply.stage == GOLD_STAGE:
            return Outcome.BAD_GOLD
        case ReplyKind.TIMED_OUT:
            return Outcome.TIMED_OUT
        case ReplyKind.CRASHED:
            return Outcome.CRASHED
        case ReplyKind.ERROR | ReplyKind.FAILED:
            raise VerifierError(
                f"the verifier {verifier!r} failed on {subject[:80]!r}: {reply.reason}"
            )


def why_it_ended(reply: Reply) -> str:
    return f"the gold failed: {reply.reason}" if reply.stage == GOLD_STAGE else reply.reason


_LARGEST_BATCH = 32
_LOST_KEYS = 4096


class WorkerPool(Closing):
    """Runs requests in ``workers`` child processes.

    Args:
        handler: import path of a factory; the child calls ``factory(options)`` once and the
            result as ``handler(request, stage)`` for each request.
        options: what the factory gets; JSON.
        workers: number of processes. They start with the first request.
        timeout: seconds that one request, or one stage of it, may take. Where the kernel counts
            them, seconds in which the worker was ready and other processes had the cores are
            none of them, up to ten times the limit in all.
        start_timeout: seconds that a worker may take to get ready.
        shared_stage: a stage that requests of the same key have in common. Once a worker had to
            be killed or died in it, they all get that reply, and no other worker is lost to it.
    """

    def __init__(
        self,
        *,
        handler: str,
        options: Mapping[str, Any],
        workers: int = 1,
        timeout: float = 5.0,
        start_timeout: float = 120.0,
        shared_stage: str = "",
    ) -> None:
        if workers < 1:
            raise SettingsError(f"workers must be at least 1, got {workers}")
        if not 0 < timeout < 1e6:
            raise SettingsError(f"timeout must lie in (0, 1e6) seconds, got {timeout}")
        self._work = _Work(handler, dict(options), workers, timeout, start_timeout, shared_stage)
        # Runs when the pool is collected and when the interpreter exits.
        self._finalizer = weakref.finalize(self, self._work.close)

    def run(
        self, requests: Sequence[Any], *, keys: Sequence[Hashable | None] | None = None
    ) -> list[Reply]:
        """One reply for each request, in order; blocks until all are there.

        ``keys`` says which requests have their shared stage in common; None: with no other, the
        default.
        """
        batch = _Batch(len(requests))
        if requests:
            lines = [encode(request) for request in requests]
            each = zip(lines, keys or [None] * len(lines), strict=True)
            jobs = [_Job(line, index, batch, key) for index, (line, key) in enumerate(each)]
            self._work.submit(jobs)
            try:
                batch.done.wait()
            except BaseException:  # Ctrl-C: the rest is no longer wanted
                self._work.withdraw(batch)
                raise
        return [reply for reply in batch.replies if reply is not None]

    def start(self, what: str) -> None:
        """Start one worker now, or close and say that ``what`` it is for cannot be used."""
        if reason := self._work.start_one():
            self.close()
            raise SettingsError(f"{what} cannot be used: {reason}")

    def close(self) -> None:
        """Kill the workers and wait for them. Requests still in flight FAIL. Repeatable."""
        self._finalizer()
        self._work.join()


class PoolOwner(Closing):
    """An owner of a pool, closed together with it."""

    _pool: WorkerPool

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()


class _Batch:
    """The requests of one call of ``run``."""

    def __init__(self, size: int) -> None:
        self.replies: list[Reply | None] = [None] * size
        self.open = size
        self.done = threading.Event()


@dataclass(eq=False, slots=True)
class _Job:
    """One request and where its reply belongs."""

    line: bytes
    index: int
    batch: _Batch
    key: Hashable


@dataclass(eq=False)
class _Work:
    """The queue, and one thread for each worker.

    It knows nothing of the pool, which can thus be collected while the threads wait.
    """

    handler: str
    options: dict[str, Any]
    workers: int
    timeout: float
    start_timeout: float
    shared_stage: str

    def __post_init__(self) -> None:
        self._lost: BoundedCache[Hashable, Reply] = BoundedCache(_LOST_KEYS)
        self._owner = os.getpid()
        # Re-entrant: the collector may run close() in a thread that holds it.
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[_Job] = deque()
        self._idle: list[WorkerProcess] = []
        self._alive: set[WorkerProcess] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(self, jobs: Sequence[_Job]) -> None:
        """Queue jobs; starts the threads with the first."""
        if os.getpid() != self._owner:
            raise VerifierError(
                "this worker pool belongs to another process; create a new one in this process"
            )
        with self._changed:
            if self._closed:
                raise VerifierError("this worker pool is closed")
            self._queue.extend(jobs)
            while len(self._threads) < min(self.workers, len(self._queue)):
                thread = threading.Thread(target=self._serve, name="dph-worker", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def withdraw(self, batch: _Batch) -> None:
        """Drop what is still queued of a batch."""
        with self._changed:
            self._queue = deque(job for job in self._queue if job.batch is not batch)

    def start_one(self) -> str:
        """Start a worker for the first thread that needs one; returns why it cannot, or ''."""
        worker, reason = self._start_worker()
        with self._changed:
            if worker is not None:
                self._idle.append(worker)
        return reason

    def close(self) -> None:
        """Kill the workers and fail what is queued; each thread then reaps its own worker."""
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._closed = True
            for job in self._queue:
                _deliver(job, _CLOSED)
            self._queue.clear()
            for worker in self._alive:
                worker.kill()
            while self._idle:
                self._discard(self._idle.pop())
            self._changed.notify_all()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        worker: WorkerProcess | None = None
        while jobs := self._take():
            reason = ""
            if worker is None:
                worker, reason = self._start_worker()
            if worker is None:
                replies = [Reply(ReplyKind.FAILED, reason=reason)] * len(jobs)
            else:
                replies = worker.exchange([job.line for job in jobs])
                if worker.retired:
                    self._discard(worker)
                    worker = None
                elif replies[-1].kind in (ReplyKind.CRASHED, ReplyKind.TIMED_OUT):
                    ending = self._discard(worker)
                    worker = None
                    reason = replies[-1].reason or f"the worker died: {ending}"
                    replies[-1] = replace(replies[-1], reason=reason)
            self._finish(jobs, replies)
        if worker is not None:
            self._discard(worker)

    def _take(self) -> list[_Job]:
        """The next jobs, a fair share of the queue; empty when the pool is closed."""
        with self._changed:
            while True:
                while not self._queue and not self._closed:
                    self._changed.wait()
                rounds = 1 if self.workers == 1 else 2 * self.workers
                size = min(-(-len(self._queue) // rounds), _LARGEST_BATCH)
                jobs = [self._queue.popleft() for _ in range(size)]
                open_jobs = [job for job in jobs if not self._is_lost(job)]
                if open_jobs or not jobs:
                    return open_jobs

    def _is_lost(self, job: _Job) -> bool:
        """True if the job's shared stage has cost a worker; then it is answered."""
        if job.key is None or (reply := self._lost.get(job.key)) is None:
            return False
        _deliver(job, reply)
        return True

    def _finish(self, jobs: Sequence[_Job], replies: Sequence[Reply]) -> None:
        """Deliver the replies; jobs that were not answered go back to the front of the queue."""
        with self._changed:
            for job, reply in zip(jobs, replies, strict=False):
                ended = self._closed and reply.kind in (ReplyKind.CRASHED, ReplyKind.FAILED)
                killed = reply.kind in (ReplyKind.TIMED_OUT, ReplyKind.CRASHED)
                shared = job.key is not None and reply.stage == self.shared_stage != ""
                if killed and shared:
                    self._lost.put(job.key, replace(reply, seconds=0.0))
                _deliver(job, _CLOSED if ended else reply)
            for job in reversed(jobs[len(replies) :]):
                if self._closed:
                    _deliver(job, _CLOSED)
                else:
                    self._queue.appendleft(job)
            self._changed.notify_all()

    def _start_worker(self) -> tuple[WorkerProcess | None, str]:
        with self._changed:  # so that close() sees every process there is
            if self._closed:
                return None, _CLOSED.reason
            if self._idle:
                return self._idle.pop(), ""
            try:
                worker = WorkerProcess(
                    self.handler,
                    self.options,
                    seconds=self.timeout,
                    start_seconds=self.start_timeout,
                )
            except OSError as error:
                return None, f"cannot start a worker process: {error}"
            self._alive.add(worker)
        if reason := worker.start():
            ending = self._discard(worker)
            return None, f"{reason} ({ending})" if reason.startswith("the worker") else reason
        return worker, ""

    def _discard(self, worker: WorkerProcess) -> str:
        """Kill and wait, and say how it ended. Afterwards close() does not touch it."""
        with self._changed:
            self._alive.discard(worker)
        return worker.kill_and_wait()


_CLOSED = Reply(ReplyKind.FAILED, reason="the worker pool was closed")


def _deliver(job: _Job, reply: Reply) -> None:
    batch = job.batch
    batch.replies[job.index] = reply
    batch.open -= 1
    if not batch.open:
        batch.done.set()

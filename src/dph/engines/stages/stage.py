"""The training stage in another engine: its checks, and the log it follows."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from safetensors import safe_open

from dph._base.files import atomic_path, make_directory, read_json, write_json
from dph._processes.child import PARENT
from dph.engines.stages.engine_log import Logged, LogReader, StepLog
from dph.errors import CheckpointError, TrainingError
from dph.records import Problem
from dph.runs.directory import checkpoint_of
from dph.runs.job import RunJob
from dph.runs.prepare import note_accepted_verifier
from dph.runs.presample.manifest import require_usable
from dph.runs.presample.pool import load_pool
from dph.runs.progress import ProgressDisplay
from dph.runs.train.checkpoints import Progress, VerifierVersion, remove_old, write_progress
from dph.runs.train.loop import Trained
from dph.runs.train.tracking import Metrics, MetricsLog, open_trackers
from dph.tasks.environments import EnvironmentVerifier

ERROR = "dph: "
"""Start of the line in which a child of this package says why it ended."""
_LOOK_EVERY = 0.2
_PATIENCE = 10.0
"""Seconds that a child has to end after it was asked to."""
_TAIL = 20000
"""Characters at the end of a log in which the reason of a failure is looked for."""
_RAISED = re.compile(r"(?:[(\[][^)\]]*[)\]]:? *)*((?:\w+\.)*\w*(?:Error|Exception)(?:: .*)?)$")
"""The last line of a traceback, whatever process a launcher puts before it."""


def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Run ``command``, whose output goes to ``log``; ``watch`` is called a few times a second.

    However this function ends, nothing that the command started is left in its process group.
    """
    make_directory(log.parent)
    own = {PARENT: str(os.getpid()), **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this process, which ends the whole group
            env={**os.environ, **own},
        )
    try:
        while process.poll() is None:
            watch()
            time.sleep(_LOOK_EVERY)
        watch()
    finally:
        _end(process)
    if process.returncode:
        raise TrainingError(f"{_reason(log, process.returncode)} (the whole log: {log})")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the group to end, and end it."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: "subprocess.Popen[bytes]", which: signal.Signals) -> None:
    try:
        os.killpg(process.pid, which)
    except ProcessLookupError:
        return


def _reason(log: Path, code: int) -> str:
    """Message of a child of this package; else the first error of a traceback, or the last line.

    Of several processes one fails first and the launcher last.
    """
    text = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line.partition(ERROR)[2] for line in lines if line.startswith(ERROR)]
    errors = [found[1] for line in lines if (found := _RAISED.match(line))]
    last = [*said[:1], *errors[:1], *lines[-1:], "it left no message"][0]
    return last if code > 0 else f"ended by signal {-code}: {last}"


def adopt(plan: RunJob, model: Path, *, step: int) -> Trained:
    """Make ``checkpoints/step_NNNNNN`` of the weights in the transformers directory ``model``.

    The tokenizer is the run's own, so that what the recipe says of chat templates stays with it.
    There is no optimizer in it, the engine's own checkpoints have that, and no pickled arguments.
    """
    train, verifier = plan.recipe.train, plan.verifier
    checkpoints = make_directory(plan.directory.checkpoints)
    path = checkpoint_of(checkpoints, step)
    with atomic_path(path) as temporary:
        shutil.copytree(model, temporary, ignore=shutil.ignore_patterns("*.bin", "README.md"))
        _say_the_dtype(temporary)
        plan.prompts.tokenizer.save_pretrained(temporary)
        write_progress(
            temporary,
            Progress(step=step, optimizer_steps=step * train.minibatches * train.epochs),
            digest=plan.training_key(),
            verifiers=(VerifierVersion(name=verifier.name, version=verifier.version),),
        )
    remove_old(checkpoints, keep=train.keep_checkpoints)
    return Trained(checkpoint=path, step=step, stopped=False)


def _say_the_dtype(directory: Path) -> None:
    """Let ``config.json`` name the weights' dtype: verl writes bfloat16 next to float32 weights."""
    found = set[str]()
    for path in directory.glob("*.safetensors"):
        with safe_open(path, framework="np") as file:
            found |= {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    names = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
    if len(found) != 1 or next(iter(found)) not in names:
        raise CheckpointError(f"the weights in {directory} should have one dtype, got {found}")
    path = directory / "config.json"
    said = {key: value for key, value in read_json(path).items() if key != "torch_dtype"}
    write_json(path, {**said, "dtype": names[found.pop()]})


_FILE = "made_from.json"


def require_made_from(place: Path, digest: str, *, done: int) -> None:
    """Compare the key of training in ``place``; where ``done`` is 0, write it."""
    path = place / _FILE
    if not path.exists() or not done:
        write_json(make_directory(place) / _FILE, {"digest": digest})
    elif dict(read_json(path)).get("digest") != digest:
        raise CheckpointError(
            f"the checkpoints in {place} were made with other settings; continue with the recipe "
            f"in its run directory, or train into a different directory (--out)"
        )


def longest_prompt(plan: RunJob) -> int:
    """Tokens of the longest prompt of the training problems, with the tools of an environment."""
    encode: Callable[[Problem], Sequence[int]] = plan.prompts.encode
    if isinstance(plan.verifier, EnvironmentVerifier):
        encode = plan.prompts.turns(plan.verifier.environment.tools).prompt
    return max(len(encode(problem)) for problem in plan.problems)


def require_usable_pool(plan: RunJob) -> None:
    """Refuse a pool that training cannot use, where it needs one."""
    recipe = plan.recipe
    if plan.needs_pool:
        require_usable(
            plan.pool,
            load_pool(plan.pool).manifest,
            rehearses=recipe.objective.rehearses_pool,
            explores=recipe.train.problems_per_step if recipe.train.problems != "all" else 0,
        )


def already_trained(plan: RunJob, *, place: Path, begun: int) -> Trained | None:
    """A finished training, if there is one; else None, and its requirements are checked."""
    done, newest = plan.resumed.step, plan.resumed.checkpoint
    note_accepted_verifier(plan)
    if newest is not None and done == plan.recipe.train.steps:
        return Trained(checkpoint=newest, step=done, stopped=False)
    require_usable_pool(plan)
    require_made_from(place, plan.training_key(), done=begun)
    return None


@contextmanager
def following(
    plan: RunJob,
    progress: ProgressDisplay,
    *,
    log: Path,
    done: int,
    convert: Callable[[Logged], Metrics],
) -> Iterator[StepLog]:
    """An engine's ``log`` as metrics, trackers and progress, from step ``done`` on.

    A log that an earlier process left is removed.
    """
    recipe = plan.recipe
    log.unlink(missing_ok=True)
    trackers = open_trackers(recipe.track, recipe, plan.directory.path)
    title = f"training {recipe.method} in {recipe.train.engine}"
    try:
        with progress.task(title, recipe.train.steps, "steps") as advance:
            advance(done, "")
            yield StepLog(
                reader=LogReader(log),
                metrics=MetricsLog(plan.directory.metrics, step=done),
                trackers=trackers,
                convert=convert,
                on_step=lambda metrics: advance(1, f"reward {metrics['reward']:.2f}"),
            )
    finally:
        trackers.close()

"""The stages in verl: problems as parquet, a pool on the cluster, training whose log is followed.

verl runs in processes of its own. Its weights are taken over at the end.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any

from safetensors import safe_open

from dph._base.files import atomic_path, make_directory, only_writer, read_json, write_json
from dph._base.provenance import install_command
from dph._processes.child import PARENT
from dph.engines.stages.verl_command import (
    LOG,
    Command,
    VerlRun,
    commands,
    require_cluster,
    train_overrides,
)
from dph.errors import CheckpointError, DataError, SettingsError, TrainingError
from dph.recipe import Recipe
from dph.recipe.engines import require_engine_can
from dph.records import Problem
from dph.runs.directory import CHECKPOINTS, PROBLEMS_FILE, checkpoint_of, is_made, note_beginning
from dph.runs.job import RunJob
from dph.runs.prepare import note_accepted_verifier
from dph.runs.presample.manifest import Manifest, require_usable
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import presample_stage as own_presample_stage
from dph.runs.progress import ProgressDisplay
from dph.runs.train.checkpoints import Progress, VerifierVersion, remove_old, write_progress
from dph.runs.train.loop import Trained
from dph.runs.train.tracking import Metrics, MetricsLog, Trackers, open_trackers
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.problems import save_problems
from dph.tasks.verl import ground_truth_of, problems_to_verl


def check(job: RunJob) -> None:
    """Refuse what verl cannot do, or its absence, before anything is written."""
    require_possible(job)
    if find_spec("verl") is None:
        raise SettingsError(
            f'train.engine = "verl" needs verl in this environment: {install_command("verl")}'
        )


def require_possible(job: RunJob) -> None:
    """Refuse what verl cannot do, wherever it is installed."""
    recipe, found = job.recipe, len(job.problems)
    require_engine_can(recipe)
    require_cluster(recipe)
    if recipe.environment.path is not None and recipe.objective.overlong_buffer:
        raise SettingsError(  # verl's reward worker only does it with answers of one turn
            "[environment] with objective.overlong_buffer is not possible in verl: use "
            "train.engine = 'own'"
        )
    train_overrides(run_of(job))
    if found < recipe.train.problems_per_step:
        raise DataError(
            f"train.problems_per_step = {recipe.train.problems_per_step}, and {recipe.data.train} "
            f"has {found} problems: verl drops the rest of an epoch that does not fill a rollout"
        )


def commands_text(job: RunJob) -> str:
    """The commands as text for a shell, one setting a line; nothing is started.

    The engine need not be installed: the commands may be for another machine, whose ``PATH`` then
    has their Python.
    """
    installed = find_spec("verl") is not None
    require_possible(job)
    run = run_of(job)
    problems = run.place / PROBLEMS_FILE
    plain = shlex.quote(str(problems.with_suffix(".jsonl")))
    parts = [] if installed else ["# verl is not installed here: use an environment that has it"]
    parts.append(
        f"# `dph run` writes the recipe as {job.directory.recipe_file.absolute()} and the problems "
        f"of {job.recipe.data.train} as {plain} first\n"
        f"dph convert --to verl --input {plain} --out {shlex.quote(str(problems))}"
    )
    python = sys.executable if installed else "python"
    for command in commands(run, pool=pool_is_missing(job), python=python):
        variables = [f"{name}={shlex.quote(v)}" for name, v in command.environment.items()]
        words = [*variables, *map(shlex.quote, command.words)]
        parts.append(f"# {command.what}\n" + " \\\n  ".join(words))
    return "\n\n".join(parts)


def presample_stage(
    job: RunJob, progress: ProgressDisplay, *, may_split_again: bool = True
) -> Manifest:
    """Make the pool on verl's engines unless there is one, and check it as our own stage does."""
    if pool_is_missing(job):
        run = run_of(job)
        _write_problems(job, run)
        (command, *_) = commands(run, pool=True)
        total = len(job.problems)
        with progress.task("pre-sampling in verl", total, "problems") as advance:
            run_command(command, log=run.place / "presample.log")
            advance(total, "")
    return own_presample_stage(job, progress, may_split_again=may_split_again)


def train_stage(job: RunJob, progress: ProgressDisplay) -> Trained:
    """Train in verl, or continue from verl's newest checkpoint."""
    recipe, directory = job.recipe, job.directory.path
    steps, run = recipe.train.steps, run_of(job)
    job.policies.release()  # verl's own processes load it
    note_accepted_verifier(job)
    if job.resumed.checkpoint is not None and job.resumed.step == steps:
        return Trained(checkpoint=job.resumed.checkpoint, step=steps, stopped=False)
    if job.needs_pool:
        require_usable(
            job.pool,
            load_pool(job.pool).manifest,
            rehearses=recipe.objective.rehearses_pool,
            explores=recipe.train.problems_per_step if recipe.train.problems != "all" else 0,
        )
    require_made_from(run.place, job.training_key(), done=newest_step(run))
    (train,) = commands(run, pool=False)
    with only_writer(directory):
        note_beginning(recipe, directory, done=newest_step(run))
        _write_problems(job, run)
        if newest_step(run) < steps:
            with _following(job, progress, run) as log:
                run_command(train, log=run.place / "train.log", watch=log.follow)
        if newest_step(run) != steps:
            raise TrainingError(
                f"verl ended after step {newest_step(run)} of {steps}; its log: "
                f"{run.place / 'train.log'}"
            )
        model = run.place / CHECKPOINTS / f"global_step_{steps}" / "actor" / "huggingface"
        return adopt(job, model, step=steps)


def run_of(job: RunJob) -> VerlRun:
    """The recipe with the initial policy and the length of the longest prompt."""
    encode: Callable[[Problem], Sequence[int]] = job.prompts.encode
    if isinstance(job.verifier, EnvironmentVerifier):  # prompts tell of its tools
        encode = job.prompts.turns(job.verifier.environment.tools).prompt
    return VerlRun(
        recipe=job.recipe,
        directory=job.directory.path,
        model=job.initial,
        longest_prompt=max(len(encode(problem)) for problem in job.problems),
    )


def pool_is_missing(job: RunJob) -> bool:
    """True if verl must make the pool. Our own engine makes pools of trajectories."""
    acts = job.recipe.environment.path is not None
    return job.needs_pool and not acts and not is_made(job.pool)


def newest_step(run: VerlRun) -> int:
    """The step of verl's newest checkpoint; 0 without one."""
    path = run.place / CHECKPOINTS / "latest_checkpointed_iteration.txt"
    said = path.read_text(encoding="utf-8").strip() if path.exists() else "0"
    return int(said) if said.isdecimal() else 0


def _write_problems(job: RunJob, run: VerlRun) -> None:
    plain = make_directory(run.place) / "problems.jsonl"
    save_problems(plain, [job.prompts.asked(problem) for problem in job.problems])
    acts = job.recipe.environment.path is not None
    gold = ground_truth_of(job.problems[0], acts=acts)
    problems_to_verl(plain, run.place / PROBLEMS_FILE, ground_truth=gold)


def require_made_from(place: Path, digest: str, *, done: int) -> None:
    """Compare the key of training in ``place``; if ``done`` is 0, write it."""
    path = place / "made_from.json"
    if not path.exists() or not done:
        write_json(make_directory(place) / path.name, {"digest": digest})
    elif dict(read_json(path)).get("digest") != digest:
        raise CheckpointError(
            f"the checkpoints in {place} were made with other settings; continue with the recipe "
            f"in its run directory, or train into a different directory (--out)"
        )


# A process of verl: its output is a file, and nothing that it started outlives it.

_ERROR = "dph: "
"""Start of the line in which a child of this package says why it ended."""
_LOOK_EVERY = 0.2
_PATIENCE = 10.0
"""Seconds that a child has to end after it was asked to."""
_TAIL = 20000
"""Characters at the end of a log in which the reason of a failure is looked for."""
_RAISED = re.compile(r"(?:[(\[][^)\]]*[)\]]:? *)*((?:\w+\.)*\w*(?:Error|Exception)(?:: .*)?)$")
"""The last line of a traceback, also after the name of a process that a launcher puts first."""


def run_command(command: Command, *, log: Path, watch: Callable[[], None] = lambda: None) -> None:
    """Run ``command``, whose output goes to ``log``; ``watch`` is called a few times a second.

    However this function ends, nothing that the command started is left in its process group.
    """
    make_directory(log.parent)
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command.words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this process, which ends the whole group
            env={**os.environ, PARENT: str(os.getpid()), **command.environment},
        )
    try:
        while process.poll() is None:
            watch()
            time.sleep(_LOOK_EVERY)
        watch()
    finally:
        if process.poll() is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
        _signal(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        raise TrainingError(f"{_reason(log, process.returncode)} (the whole log: {log})")


def _signal(group: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, which)


def _reason(log: Path, code: int) -> str:
    """Message of a child of this package, the first error of a traceback, or the last line.

    Of several processes one fails first and the launcher last.
    """
    text = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line.partition(_ERROR)[2] for line in lines if line.startswith(_ERROR)]
    errors = [found[1] for line in lines if (found := _RAISED.match(line))]
    last = [*said[:1], *errors[:1], *lines[-1:], "it left no message"][0]
    return last if code > 0 else f"ended by signal {-code}: {last}"


# verl's file logger writes lines of {"step": ..., "data": {...}}.


@dataclass(slots=True, kw_only=True)
class StepLog:
    """The complete lines of verl's growing log, each once, as lines of ``metrics.jsonl``."""

    path: Path
    recipe: Recipe
    metrics: MetricsLog
    trackers: Trackers
    on_step: Callable[[Metrics], None]
    _read: int = field(default=0, init=False)

    def follow(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _half = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in filter(bytes.strip, whole.splitlines()):
            row = json.loads(line)
            step = int(row["step"])
            metrics = {"step": step, **step_of_verl(row["data"], self.recipe)}
            self.metrics.write(metrics)
            self.trackers.log(metrics, step=step)
            self.on_step(metrics)


@contextlib.contextmanager
def _following(job: RunJob, progress: ProgressDisplay, run: VerlRun) -> Iterator[StepLog]:
    """Verl's log as metrics, trackers and progress; one of an earlier process is removed."""
    recipe, log, done = job.recipe, run.place / LOG, newest_step(run)
    log.unlink(missing_ok=True)
    trackers = open_trackers(recipe.track, recipe, job.directory.path)
    title = f"training {recipe.method} in {recipe.train.engine}"
    try:
        with progress.task(title, recipe.train.steps, "steps") as advance:
            advance(done, "")
            yield StepLog(
                path=log,
                recipe=recipe,
                metrics=MetricsLog(job.directory.metrics, step=done),
                trackers=trackers,
                on_step=lambda metrics: advance(1, f"reward {metrics['reward']:.2f}"),
            )
    finally:
        trackers.close()


SAME_IN_VERL: Mapping[str, str] = {
    "entropy": "actor/entropy",
    "policy_loss": "actor/pg_loss",
    "clipped_high": "actor/dph/clipped_high",
    "clipped_low": "actor/dph/clipped_low",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "completion_tokens": "response_length/mean",
    "seconds": "timing_s/step",
    "seconds_sampling": "timing_s/gen",
    "seconds_update": "timing_s/update_actor",
    "peak_memory_device": "actor/perf/max_memory_allocated_gb",
}
"""Our names of metrics, and verl's names for the same."""
_VERDICT, _VERDICTS = "dph/", ("reward", "correct", "zero_variance", "unfinished")
"""Prefix and names of metrics of verdicts, which our trainer logs (``answer_metrics``)."""
_ANCHOR, _PENALTY = "actor/dph/divergence", "actor/dph/penalty/"


def step_of_verl(line: Mapping[str, Any], recipe: Recipe) -> Metrics:
    """The metrics of one step from verl's ``line``; NaN if verl does not give them.

    ``learning_rate`` is that of the next step: verl logs it after its schedule has moved on.
    """

    def value(name: str) -> float:
        return nan if line.get(name) is None else float(line[name])

    train, active = recipe.train, recipe.objective.active_anchors
    anchors = {n: value(_ANCHOR if len(active) == 1 else f"{_ANCHOR}/{n}") for n in active}
    found = {ours: value(theirs) for ours, theirs in SAME_IN_VERL.items()}
    tokens = found["completion_tokens"] * train.problems_per_step * train.samples_per_problem
    penalties = [float(v) for k, v in line.items() if k.startswith(_PENALTY)]
    return {
        **{name: value(f"{_VERDICT}{name}") for name in _VERDICTS},
        **found,
        "kl_penalty": float(line.get("actor/kl_loss", 0.0)) + sum(penalties),
        "divergence": sum(anchors.values()),
        **({f"anchor_{n}": v for n, v in anchors.items()} if len(anchors) > 1 else {}),
        "tokens": tokens,
        "tokens_per_second": tokens / found["seconds"] if found["seconds"] else nan,
        **{
            key.removeprefix(_VERDICT): float(share)
            for key, share in sorted(line.items())
            if key.startswith(f"{_VERDICT}outcome_")
        },
    }


# The weights, as a checkpoint of the run.


def adopt(job: RunJob, model: Path, *, step: int) -> Trained:
    """Make ``checkpoints/step_NNNNNN`` of the weights in the transformers directory ``model``.

    The tokenizer is the run's own, so that the recipe's chat template stays with it. There is no
    optimizer in it, which verl's own checkpoints have, and no pickled arguments.
    """
    train, verifier = job.recipe.train, job.verifier
    checkpoints = make_directory(job.directory.checkpoints)
    path = checkpoint_of(checkpoints, step)
    with atomic_path(path) as temporary:
        shutil.copytree(model, temporary, ignore=shutil.ignore_patterns("*.bin", "README.md"))
        _correct_dtype(temporary)
        job.prompts.tokenizer.save_pretrained(temporary)
        write_progress(
            temporary,
            Progress(step=step, optimizer_steps=step * train.minibatches * train.epochs),
            digest=job.training_key(),
            verifiers=(VerifierVersion(name=verifier.name, version=verifier.version),),
        )
    remove_old(checkpoints, keep=train.keep_checkpoints)
    return Trained(checkpoint=path, step=step, stopped=False)


def _correct_dtype(directory: Path) -> None:
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

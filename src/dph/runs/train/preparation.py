"""The beginning of a training run: its actors, its forward pass and scorers, and its checks."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.errors import PoolError, SettingsError
from dph.loss.objectives import Objective, reads_of
from dph.model.sampler.episodes import AnswerSampler
from dph.recipe import Recipe
from dph.recipe.terms import REF_LOGPROBS
from dph.records import Problem
from dph.runs.answers import scorer_of
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.evaluations import Evaluations
from dph.runs.train.kept_samples import KeptSamples
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.policy_rows import TOLERANCE, Scorers
from dph.runs.train.rows import written_of
from dph.runs.train.self_consistency import SelfConsistency


@dataclass(frozen=True, slots=True, kw_only=True)
class Actors:
    """The policy, its sampler and verifier, and further parts that only some methods need."""

    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    reference: PreTrainedModel | None
    draw: AnswerSampler
    self_consistency: SelfConsistency | None = None
    evaluations: Evaluations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Location of the weights, and whether training was stopped before its last step."""

    checkpoint: Path
    step: int
    stopped: bool


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C (SIGINT) or SIGTERM came.

    The second Ctrl-C raises KeyboardInterrupt at once. Outside the main thread, where Python
    allows no handlers, the function always says no.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop.is_set
        return

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


CHECKED = 1024
"""Stored samples that are looked at, spread evenly: a mean needs no more, a pool may hold 10^5."""


def require_reference(samples: Sequence[RehearsalSample], forward: TrainingForward) -> None:
    """Refuse to rehearse log-probs that the untrained policy does not reproduce."""
    require_small_gap(mean_reference_gap(samples, forward), dtype=forward.dtype)


def checked(samples: Sequence[RehearsalSample]) -> list[RehearsalSample]:
    """At most ``CHECKED`` samples, spread evenly."""
    if not samples:
        raise PoolError(
            "the pool has no rehearsal sample, but the method rehearses: run `dph presample` on "
            "the finished pool to see why, or use a method without rehearsal"
        )
    return [samples[i] for i in range(0, len(samples), -(-len(samples) // CHECKED))]


def mean_reference_gap(samples: Sequence[RehearsalSample], forward: TrainingForward) -> float:
    """Mean |log pi - log pi_ref| over the tokens of at most ``CHECKED`` samples, in nats."""
    samples = checked(samples)
    scores = forward.logprobs(
        forward.model,
        [sample.prompt_ids for sample in samples],
        [sample.completion_ids for sample in samples],
        written=[written_of(sample) for sample in samples],
    )
    return mean_gap(samples, scores)


def mean_gap(samples: Sequence[RehearsalSample], logprobs: Sequence[Sequence[float]]) -> float:
    """Mean distance, in nats a token, of ``logprobs`` to those that ``samples`` store."""
    gaps = [
        abs(now - stored)
        for sample, row in zip(samples, logprobs, strict=True)
        for now, stored in zip(row, sample.ref_logprobs, strict=True)
    ]
    return sum(gaps) / len(gaps)


def require_small_gap(gap: float, *, dtype: str) -> None:
    """Refuse a mean gap at step 0 that is more than rounding."""
    tolerance = TOLERANCE[dtype]
    if not gap <= tolerance:
        raise PoolError(
            f"the stored log-probs are not this policy's: mean |log pi - log pi_ref| at step 0 is "
            f"{gap:.2g} nats a token, at most {tolerance:g} is rounding; pre-sample again with "
            "this model, temperature and dtype"
        )


def training_forward(recipe: Recipe, actors: Actors, objective: Objective) -> TrainingForward:
    """The forward of the policy as the recipe asks for it.

    It has the initial policy beside it where a term compares whole distributions with its own.
    """
    return TrainingForward(
        model=actors.policy,
        **asdict(scorer_of(recipe, actors.tokenizer)),
        max_tokens=recipe.answer_tokens,
        reference=actors.reference if objective.reads_reference_tables else None,
    )


def scorers(recipe: Recipe, actors: Actors, objective: Objective, *, dtype: str) -> Scorers:
    """Sources of old log-probs (``train.old_logprobs``) and of the initial policy's.

    With "auto" in 16 bits, rows of the first optimizer step take those of its gradient pass, unless
    they are read before it, or again after it (another epoch).
    """
    train = recipe.train
    auto = train.old_logprobs == "auto" and dtype != "float32"
    read_once = train.epochs == 1 and REF_LOGPROBS not in reads_of(objective.advantage)
    return Scorers(
        old=actors.policy if auto or train.old_logprobs == "recompute" else None,
        reference=actors.reference if objective.reads_reference_logprobs else None,
        first_of=train.minibatches if auto and read_once else 0,
    )


def kept_samples(
    recipe: Recipe, directory: Path, actors: Actors, problems: Sequence[Problem]
) -> KeptSamples:
    """Keeper of the answers that the run draws."""
    unlabelled = actors.self_consistency
    return KeptSamples(
        directory,
        keep=recipe.train.keep_samples,
        megabytes=recipe.train.keep_samples_mb,
        seed=recipe.seed,
        labelled=problems,
        unlabelled=unlabelled.problems if unlabelled is not None else (),
    )


def require_enough(problems: Sequence[Problem], recipe: Recipe) -> None:
    """Refuse fewer problems than a step needs."""
    if len(problems) < recipe.labelled_per_step:
        beside = " in addition to the unlabelled ones" * recipe.self_consistency.active
        raise SettingsError(
            f"train.problems_per_step = {recipe.train.problems_per_step}{beside}, but there are "
            f"only {len(problems)} problems to explore"
        )

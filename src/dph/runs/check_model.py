"""Checks of a recipe's model and prompts that need no weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TypeVar

from transformers import PreTrainedConfig

from dph.errors import DphError, ModelError
from dph.model.hub import is_on_hub, model_directory
from dph.model.loading import load_config, load_tokenizer, longest_context, require_usable
from dph.model.prompts import common_length, stop_token_ids
from dph.recipe import ModelSettings, Recipe
from dph.recipe.engines import ENGINES
from dph.recipe.tables import BITSANDBYTES, LIGER, PEFT, TORCHAO
from dph.records import Problem
from dph.runs.memory import Device, MemoryEstimate, device_at_hand, load_of, read_shape
from dph.runs.prompts import RunPrompts, texts_of

Value = TypeVar("Value")


@dataclass(slots=True, kw_only=True)
class Findings:
    """Messages of the checks."""

    errors: list[str] = field(default_factory=list)
    """Mistakes that would end the run."""
    notes: list[str] = field(default_factory=list)
    """Named files that do not exist yet, and facts worth knowing."""
    unchecked: list[str] = field(default_factory=list)
    """Parts that could not be checked, because something does not exist or is not loaded."""
    memory: MemoryEstimate | None = None
    """Estimated memory of training and sampling; None if it is unknown."""
    device: Device | None = None
    """The device of the estimate."""

    def value(self, key: str, make: Callable[[], Value]) -> Value | None:
        """The value of ``make``; if it raises, None, and an error of ``key``."""
        try:
            return make()
        except DphError as error:
            self.errors.append(f"{key}: {error}" if key else str(error))
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProblems:
    """The problems of a file, and the setting that names it."""

    key: str
    problems: Sequence[Problem]
    verifier: str
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedModel:
    """A model without its weights; ``prompts`` None: its tokenizer cannot be used."""

    directory: Path
    config: PreTrainedConfig
    prompts: RunPrompts | None

    @property
    def context(self) -> int | None:
        """The longest row of tokens; None if the config does not give it."""
        return longest_context(self.config)


def missing_extras(recipe: Recipe) -> list[str]:
    """Packages that training needs, and that are not installed, as messages."""
    settings = recipe.model
    needed = [PEFT] if settings.adapter else [TORCHAO] if settings.weights == "bfloat16" else []
    needed += [BITSANDBYTES] * (settings.weights == "nf4")
    needed += [LIGER] * (settings.kernels == "liger")
    missing = [f"model: {extra.missing}" for extra in needed if not extra.is_installed]
    # tensorboardX serves as tensorboard.
    found = {n: find_spec(n) or find_spec(f"{n}X") for n in ("accelerate", *recipe.track.to)}
    trackers = [name for name in recipe.track.to if not (found["accelerate"] and found[name])]
    return missing + [f"track.to: {one!r} needs dph-rl[{one}] installed" for one in trackers]


def check_model(recipe: Recipe, findings: Findings) -> CheckedModel | None:
    """The model without its weights; None if it is missing, in the cache too, or cannot be read."""
    settings = recipe.model
    if recipe.train.engine == "own":  # another engine runs in another environment
        findings.errors += missing_extras(recipe)
    directory = _directory(settings, findings)
    config = directory and findings.value("model.path", lambda: load_config(directory))
    if directory is None or config is None:
        return None
    findings.value("model.path", lambda: require_usable(config, settings.path))
    if not any(directory.glob("*.safetensors")):
        findings.errors.append(f"model.path: {directory} holds no weights (*.safetensors)")
    findings.unchecked.append("the weights and the device: only a run loads them")
    tokenizer = findings.value("model.path", lambda: load_tokenizer(directory))
    prompts = tokenizer and findings.value("", lambda: RunPrompts.of(recipe.data, tokenizer))
    return CheckedModel(directory=directory, config=config, prompts=prompts)


def _directory(model: ModelSettings, findings: Findings) -> Path | None:
    directory = Path(model.path)
    if not is_on_hub(model):
        if model.revision is not None:
            findings.errors.append(
                f"model.revision = {model.revision!r} belongs to a model of the Hub, but "
                f"model.path = {model.path!r} is not one"
            )
        if directory.exists():
            return directory
        findings.notes.append(f"model.path does not exist: {directory}")
        return None
    at = model.revision or "its main branch"
    try:
        found = model_directory(model)
    except ModelError:
        findings.notes.append(
            f"model.path does not exist: {model.path}; a run would fetch the model of that name "
            f"from the Hub, at {at}"
        )
        return None
    findings.notes.append(f"model.path: {model.path} of the Hub, {at}, is in the cache: {found}")
    return found


_MEASURED = 512
"""Prompts of a file that are turned into tokens, the longest first."""


def check_prompts(
    recipe: Recipe, model: CheckedModel | None, named: Sequence[NamedProblems], findings: Findings
) -> None:
    """Check the tokenizer, the stop strings, the chat template, and the longest prompts."""
    if model is None or model.prompts is None:
        if model is None:
            findings.unchecked.append("the tokenizer and the lengths of prompts: there is no model")
        return
    tokenizer, vocabulary = model.prompts.tokenizer, model.config.get_text_config().vocab_size
    if tokenizer.vocab_size > vocabulary:
        findings.errors.append(
            f"model.path: the tokenizer has {tokenizer.vocab_size} tokens, but the model only "
            f"{vocabulary} embeddings: they do not match"
        )
    findings.value("sampling.stop", lambda: stop_token_ids(tokenizer, stop=recipe.sampling.stop))
    if model.context is None:
        findings.unchecked.append(
            "the lengths of prompts: the config does not give the longest context"
        )
    told = set[str]()
    for part in named:
        try:
            findings.errors.extend(_too_long(model.prompts, model.context, part))
        except DphError as error:
            reason = str(error.__cause__)
            if reason not in told:  # one that is the same for every file
                findings.errors.append(f"{part.key}: {error}")
            told.add(reason)


def _longest_first(problems: Sequence[Problem]) -> list[Problem]:
    """Problems whose prompts have the most bytes first."""

    def size(problem: Problem) -> int:
        return sum(len(text.encode("utf-8", "replace")) for text in texts_of(problem))

    return sorted(problems, key=size, reverse=True)


def _too_long(prompts: RunPrompts, context: int | None, part: NamedProblems) -> Iterator[str]:
    """The first prompt that is too long, and the number of such prompts among the longest."""
    if context is not None and part.max_tokens >= context:
        limit = f"{part.max_tokens} tokens of an answer (sampling.max_tokens, evaluate.max_tokens)"
        yield f"{part.key}: {limit} and a prompt exceed the model's context of {context}"
        return
    longest = _longest_first(part.problems)[:_MEASURED]
    lengths = []
    for problem in longest:
        try:
            lengths.append(len(prompts.encode(problem)))
        except DphError as error:
            raise type(error)(f"problem {problem.problem_id!r}: {error}") from error
    room = None if context is None else context - part.max_tokens
    if found := [each for each in zip(longest, lengths, strict=True) if room and each[1] > room]:
        problem, length = found[0]
        more = f" ({len(found)} such prompts)" if len(found) > 1 else ""
        yield (
            f"{part.key}: problem {problem.problem_id!r}: a prompt of {length} tokens and "
            f"max_tokens = {part.max_tokens} exceed the model's context of {context}{more}"
        )


_LOOKED_AT = 32
"""The longest prompt in tokens is taken from this many of most bytes, the common beginning from
these and as many of fewest bytes."""
LIBRARIES = 0.6 * 2**30
"""Bytes of Python, torch and transformers, or of a CUDA context."""


def check_memory(
    recipe: Recipe,
    model: CheckedModel | None,
    named: Sequence[NamedProblems],
    findings: Findings,
    *,
    device: Device | None = None,
) -> None:
    """Estimate the peaks of training and sampling; an error if they exceed the device's memory."""
    training = next((part for part in named if part.key == "data.train"), None)
    if model is None or model.prompts is None or training is None or not training.problems:
        findings.unchecked.append("the memory needed: there is no model, or no training problem")
        return
    device = device or device_at_hand(recipe.model.device)
    cuda = device is not None and device.cuda
    ordered = _longest_first(training.problems)
    try:
        ids = [model.prompts.encode(p) for p in (*ordered[:_LOOKED_AT], *ordered[-_LOOKED_AT:])]
        prompt = max(map(len, ids))
        common = min(common_length(min(ids), max(ids)), prompt - 1)
        estimate = resolve_name(ENGINES[recipe.train.engine].memory)
        found: MemoryEstimate = estimate(
            recipe,
            read_shape(model.directory),
            load_of(recipe, prompt=prompt, common=common, cuda=cuda),
            cuda=cuda,
            gpu=device.memory if device is not None and cuda else 0.0,
        )
    except DphError as error:
        findings.unchecked.append(f"the memory needed: {error}")
        return
    findings.memory = found
    findings.device = device
    if device is not None and (refusal := _too_much(found, device)):
        findings.errors.append(refusal)


def _too_much(found: MemoryEstimate, device: Device) -> str | None:
    needed = found.peak + LIBRARIES
    if needed <= device.memory:
        return None
    part = "training" if found.training >= found.sampling else "sampling"
    fixed = found.weights + found.gradients + found.optimizer
    advice = (
        "share the weights among more GPUs (verl.gpus, verl.nodes), or lower "
        + ("train.microbatch_tokens" if part == "training" else "vllm.memory")
        if found.gpus
        else "train an adapter ([model.adapter]), or weights in bfloat16 (model.weights)"
        if part == "training" and fixed > device.memory / 2
        else "lower train.microbatch_tokens, or set model.gradient_checkpointing = true"
        if part == "training"
        else "lower sampling.max_rows or sampling.cache_tokens"
    )
    return (
        f"{part} takes about {needed / 2**30:.1f} GiB, and {device.name} has "
        f"{device.memory / 2**30:.1f}: {advice}"
    )

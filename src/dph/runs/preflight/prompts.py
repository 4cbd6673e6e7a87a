"""The prompts: the tokenizer takes them, they leave room for an answer, and they fit the memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import NamedTuple

from dph.errors import ModelError, SettingsError
from dph.model.prompts import NO_TEMPLATE, chat_messages, chat_text, with_variables
from dph.model.sampler.base import common_length
from dph.recipe import DataSettings, Recipe
from dph.recipe.engines import ENGINES
from dph.records import Problem
from dph.runs.memory import Device, MemoryEstimate, device_at_hand, load_of, read_shape
from dph.runs.preflight.data import Findings, NamedProblems
from dph.runs.preflight.model import ModelFiles, TokenizerFiles, read_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLengths:
    """A tokenizer with what a recipe says of prompts; ``template`` None: there is none."""

    tokenizer: TokenizerFiles
    template: str | None
    wraps_texts: bool
    system_prompt: str

    def is_chat(self, problem: Problem) -> bool:
        """Whether a problem's prompt goes through the chat template."""
        return self.wraps_texts or not isinstance(problem.prompt, str)

    def text(self, problem: Problem) -> str:
        """The prompt up to where the answer begins; of a chat in the words of the template."""
        if isinstance(problem.prompt, str) and not self.wraps_texts:
            return problem.prompt
        messages = chat_messages(problem.prompt, system_prompt=self.system_prompt)
        return chat_text(self.template or "", messages, self.tokenizer.special_tokens)

    def tokens(self, problem: Problem) -> int:
        """Tokens of a problem's prompt; a template brings the special ones itself."""
        return self.tokenizer.length(self.text(problem), special=not self.is_chat(problem))


def prompt_lengths(data: DataSettings, tokenizer: TokenizerFiles) -> PromptLengths:
    """Measure of the prompts of a recipe."""
    templates = with_variables(tokenizer.templates, data.template)
    return PromptLengths(
        tokenizer=tokenizer,
        template=templates if isinstance(templates, str) else (templates or {}).get("default"),
        wraps_texts=templates is not None if data.chat == "auto" else bool(data.chat),
        system_prompt=data.system_prompt,
    )


def with_decided_chat(recipe: Recipe, model: ModelFiles | None) -> Recipe:
    """The recipe with ``data.chat = "auto"`` decided for its examples, if it has any."""
    data = recipe.data
    if data.shots is None or data.chat != "auto" or model is None:
        return recipe
    try:
        tokenizer = read_tokenizer(model.directory)
        wraps = tokenizer is not None and prompt_lengths(data, tokenizer).wraps_texts
    except (ModelError, SettingsError):  # ``check_prompts`` reports it
        return recipe
    return recipe.model_copy(update={"data": data.decided(chat=wraps)})


def longest_first(problems: Sequence[Problem]) -> list[Problem]:
    """Problems with the most text in their prompts first."""
    return sorted(problems, key=_bytes, reverse=True)


def _bytes(problem: Problem) -> int:
    texts = (
        [problem.prompt]
        if isinstance(problem.prompt, str)
        else [message["content"] for message in problem.prompt]
    )
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


_MEASURED = 512
"""Prompts of a file that are turned into tokens, the longest first: about a second's worth."""


def check_prompts(
    recipe: Recipe,
    model: ModelFiles | None,
    named: Sequence[NamedProblems],
    findings: Findings,
) -> None:
    """Check the tokenizer, the stop strings, the chat template, and the longest prompts."""
    if model is None:
        findings.unchecked.append("the tokenizer and the lengths of prompts: there is no model")
        return
    try:
        tokenizer = read_tokenizer(model.directory)
    except ModelError as error:
        findings.errors.append(f"model.path: {error}")
        return
    if tokenizer is None:
        findings.unchecked.append(
            "the tokenizer and the lengths of prompts: without a tokenizer.json they need torch"
        )
        return
    findings.errors.extend(_tokens_refused(recipe, tokenizer, model.vocabulary))
    try:
        lengths = prompt_lengths(recipe.data, tokenizer)
    except (ModelError, SettingsError) as error:
        findings.errors.append(str(error))
        return
    refused = list(_chats_refused(lengths, named))
    findings.errors.extend(refused)
    if model.context is None:
        findings.unchecked.append(
            "the lengths of prompts: the config does not give the longest context"
        )
    elif not refused:
        for part in named:
            findings.errors.extend(_too_long(lengths, model.context, part))


def _tokens_refused(
    recipe: Recipe, tokenizer: TokenizerFiles, vocabulary: int | None
) -> Iterator[str]:
    size = tokenizer.tokenizer.get_vocab_size(with_added_tokens=True)
    if vocabulary is not None and size > vocabulary:
        yield (
            f"model.path: the tokenizer has {size} tokens, but the model only {vocabulary} "
            "embeddings: they do not match"
        )
    for text in recipe.sampling.stop:
        if len(tokens := tokenizer.tokens_of_stop(text)) != 1:
            yield f"sampling.stop: a stop string must be a single token; {text!r} is {tokens}"


def _chats_refused(lengths: PromptLengths, named: Sequence[NamedProblems]) -> Iterator[str]:
    """Refuse chats without a template; the template takes the first chat of each file."""
    problems = [problem for part in named for problem in part.problems]
    chats = lengths.wraps_texts or any(map(lengths.is_chat, problems))
    if chats and lengths.template is None:
        yield f"model.path: {NO_TEMPLATE}"
    if lengths.system_prompt and not all(map(lengths.is_chat, problems)):
        yield "data.system_prompt needs data.chat = true: a plain prompt is used unchanged"
    if not chats or lengths.template is None:
        return
    for part in named:
        for problem in part.problems[:1]:
            try:
                lengths.text(problem)
            except ModelError as error:
                yield f"{part.key}: problem {problem.problem_id!r}: {error}"


def _too_long(lengths: PromptLengths, context: int, part: NamedProblems) -> list[str]:
    """The first prompt of a file that leaves no room, and how many there are among the longest."""
    if part.max_tokens >= context:
        limit = f"{part.max_tokens} tokens of an answer (sampling.max_tokens, evaluate.max_tokens)"
        return [f"{part.key}: {limit} and a prompt exceed the model's context of {context}"]
    found = []
    for problem in longest_first(part.problems)[:_MEASURED]:
        try:
            text = lengths.text(problem)
            if len(text.encode("utf-8", "replace")) + part.max_tokens + 2 <= context:
                continue  # a token is a byte at least, and two are added around
            length = lengths.tokens(problem)
        except ModelError as error:
            return [f"{part.key}: problem {problem.problem_id!r}: {error}"]
        if length + part.max_tokens > context:
            found.append((problem.problem_id, length))
    if not found:
        return []
    problem_id, length = found[0]
    more = f" ({len(found)} such prompts)" if len(found) > 1 else ""
    return [
        f"{part.key}: problem {problem_id!r}: a prompt of {length} tokens and max_tokens = "
        f"{part.max_tokens} exceed the model's context of {context}{more}"
    ]


_LOOKED_AT = 32
"""Prompts of which the longest in tokens is taken, those of most bytes; with as many of fewest
bytes, those of which the common beginning is taken."""
LIBRARIES = 0.6 * 2**30
"""Bytes of Python, torch and transformers, or of a CUDA context."""


def check_memory(
    recipe: Recipe,
    model: ModelFiles | None,
    named: Sequence[NamedProblems],
    findings: Findings,
    *,
    device: Device | None = None,
) -> None:
    """Estimate the peaks of training and sampling; an error where the device does not hold them.

    ``device`` is the one to ask about [default: the one at hand].
    """
    training = next((part for part in named if part.key == "data.train"), None)
    if model is None or training is None or not training.problems:
        findings.unchecked.append("the memory needed: there is no model, or no training problem")
        return
    device = device or device_at_hand(recipe.model.device)
    cuda = device is not None and device.cuda
    try:
        shape = read_shape(model.directory)
        lengths = _lengths(recipe, model, training.problems)
        if lengths is None:
            findings.unchecked.append("the memory needed: the lengths of prompts need torch")
            return
        estimate = resolve_name(ENGINES[recipe.train.engine].memory)
        found: MemoryEstimate = estimate(
            recipe,
            shape,
            load_of(recipe, prompt=lengths.longest, common=lengths.common, cuda=cuda),
            cuda=cuda,
            gpu=device.memory if device is not None and cuda else 0.0,
        )
    except (ModelError, SettingsError) as error:
        findings.unchecked.append(f"the memory needed: {error}")
        return
    findings.memory = found
    findings.device = device
    if device is not None and (refusal := _too_much(found, device)):
        findings.errors.append(refusal)


class _Lengths(NamedTuple):
    longest: int
    common: int
    """Tokens that all prompts begin with."""


def _lengths(recipe: Recipe, model: ModelFiles, problems: Sequence[Problem]) -> _Lengths | None:
    """Tokens of prompts, in their chat template where they are chats."""
    tokenizer = read_tokenizer(model.directory)
    if tokenizer is None:
        return None
    lengths = prompt_lengths(recipe.data, tokenizer)
    ordered = longest_first(problems)
    texts = [lengths.text(each) for each in (*ordered[:_LOOKED_AT], *ordered[-_LOOKED_AT:])]
    longest = max(map(lengths.tokens, ordered[:_LOOKED_AT]))
    beginning = texts[0][: common_length(min(texts), max(texts))]
    # The last token of a text that goes on may be another there.
    alike = tokenizer.length(beginning, special=False) - 1
    return _Lengths(longest, min(max(alike, 0), longest - 1))


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

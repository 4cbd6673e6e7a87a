"""The prompts: that the tokenizer takes them and that they leave room for an answer."""

from collections.abc import Iterator, Sequence

from dph.errors import ModelError
from dph.records import Problem
from dph.runs.preflight.data import NamedProblems
from dph.runs.preflight.findings import Findings
from dph.runs.preflight.model import ModelFiles
from dph.runs.preflight.tokenizer import TokenizerFiles, read_tokenizer
from dph.settings import Recipe

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
    size = tokenizer.tokenizer.get_vocab_size(with_added_tokens=True)
    if model.vocabulary is not None and size > model.vocabulary:
        findings.errors.append(
            f"model.path: the tokenizer has {size} tokens, but the model only {model.vocabulary} "
            "embeddings: they do not belong together"
        )
    for text in recipe.sampling.stop:
        if len(tokens := tokenizer.tokens_of_stop(text)) != 1:
            findings.errors.append(
                f"sampling.stop: a stop string must be a single token; {text!r} is {tokens}"
            )
    chats = _check_chats(recipe, tokenizer, named, findings)
    if model.context is None:
        findings.unchecked.append("the lengths of prompts: the config names no longest context")
        return
    if chats:
        findings.unchecked.append(
            "what the chat template adds to the lengths of prompts: it needs torch"
        )
    for part in named:
        findings.errors.extend(_too_long(recipe, tokenizer, model.context, part))


def _check_chats(
    recipe: Recipe,
    tokenizer: TokenizerFiles,
    named: Sequence[NamedProblems],
    findings: Findings,
) -> bool:
    """Whether there are chats; a template has to be there for them."""
    data = recipe.data
    messages = any(not isinstance(p.prompt, str) for part in named for p in part.problems)
    texts = any(isinstance(p.prompt, str) for part in named for p in part.problems)
    chat = tokenizer.has_template if data.chat == "auto" else data.chat
    if (chat or messages or data.template) and not tokenizer.has_template:
        findings.errors.append(
            "model.path: the tokenizer has no chat template, which chat prompts need: "
            "use plain prompts (chat = false) or save a chat_template with the tokenizer"
        )
    if data.system_prompt and texts and not chat:
        findings.errors.append(
            "data.system_prompt needs data.chat = true: a plain prompt is taken as it is"
        )
    return chat or messages


def _too_long(
    recipe: Recipe, tokenizer: TokenizerFiles, context: int, part: NamedProblems
) -> list[str]:
    """The first prompt of a file that leaves no room, and how many there are among the longest."""
    if part.max_tokens >= context:
        limit = f"{part.max_tokens} tokens of an answer (sampling.max_tokens, evaluate.max_tokens)"
        return [f"{part.key}: {limit} and a prompt exceed the model's context of {context}"]
    longest = longest_first(part.problems)[:_MEASURED]
    found = []
    for problem in longest:
        if _bytes(problem) + part.max_tokens + 2 <= context:
            break  # a token is a byte at least, and two are added around
        asked = recipe.data.chat
        chat = tokenizer.has_template if asked == "auto" else asked
        chat = chat or not isinstance(problem.prompt, str)
        length = prompt_length(tokenizer, problem, chat=chat)
        if length + part.max_tokens > context:
            found.append((problem.problem_id, length, "at least " if chat else ""))
    if not found:
        return []
    problem_id, length, least = found[0]
    more = f" ({len(found)} such prompts)" if len(found) > 1 else ""
    return [
        f"{part.key}: problem {problem_id!r}: a prompt of {least}{length} tokens and max_tokens = "
        f"{part.max_tokens} exceed the model's context of {context}{more}"
    ]


def longest_first(problems: Sequence[Problem]) -> list[Problem]:
    """Problems with the most text in their prompts first."""
    return sorted(problems, key=_bytes, reverse=True)


def prompt_length(tokenizer: TokenizerFiles, problem: Problem, *, chat: bool = False) -> int:
    """Tokens of a problem's prompt, without those that a chat template adds."""
    return sum(tokenizer.length(text, special=not chat) for text in _texts(problem))


def _bytes(problem: Problem) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in _texts(problem))


def _texts(problem: Problem) -> Iterator[str]:
    if isinstance(problem.prompt, str):
        yield problem.prompt
    else:
        yield from (message["content"] for message in problem.prompt)

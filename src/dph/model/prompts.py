"""From a problem's prompt to token ids, and the tokens that end an answer."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, TemplateError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from dph.errors import ModelError, SettingsError
from dph.records import Problem
from dph.tasks.environments import Episode, ToolResult

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TemplateValue = bool | int | float | str


def wants_chat(tokenizer: "PreTrainedTokenizerBase", chat: bool | str) -> bool:
    """True if text prompts become user messages; "auto": if there is a chat template."""
    return tokenizer.chat_template is not None if chat == "auto" else bool(chat)


def set_template_variables(
    tokenizer: "PreTrainedTokenizerBase", variables: Mapping[str, TemplateValue]
) -> None:
    """Set variables such as ``enable_thinking = false`` in the tokenizer's own chat template.

    They become part of the template, so they count in the tokenizer's fingerprint, and a tokenizer
    that is saved with a checkpoint makes the same prompts wherever it is loaded.
    """
    if not variables:
        return
    template = tokenizer.chat_template
    if not isinstance(template, str):
        has = "no chat template" if template is None else "several chat templates"
        raise ModelError(f"data.template sets variables, but the tokenizer has {has}")
    extensions: list[str | type[Extension]] = ["jinja2.ext.loopcontrols", _Generation]
    try:
        parsed = Environment(extensions=extensions).parse(template)
        read = meta.find_undeclared_variables(parsed)
    except TemplateError as error:
        raise ModelError(f"the chat template is damaged: {error}") from error
    for name in variables:
        if name not in read:
            raise SettingsError(
                f"data.template.{name}: the chat template reads no such variable; it reads "
                f"{', '.join(sorted(read))}"
            )
    # "+%}" keeps a line break with which the template may begin.
    lines = "".join(f"{{%- set {n} = {json.dumps(v)} +%}}" for n, v in variables.items())
    tokenizer.chat_template = lines + template


class _Generation(Extension):
    """``{% generation %}`` of transformers, which marks what the model says; only its content."""

    tags = {"generation"}  # noqa: RUF012  # as the base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the common prefix of two prompts of one type, in tokens, letters or bytes.

    >>> common_length((1, 2, 3), (1, 2, 4, 5))
    2
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def encode_prompt(
    tokenizer: "PreTrainedTokenizerBase",
    prompt: str | Sequence[Mapping[str, str]],
    *,
    chat: bool = False,
    system_prompt: str = "",
    tools: Sequence[Mapping[str, Any]] = (),
) -> tuple[int, ...]:
    """The token ids of a prompt.

    A string is encoded unchanged, with the special tokens that the tokenizer adds by itself. With
    ``chat`` it becomes a user message. Messages go through the chat template, up to the beginning
    of the answer; ``system_prompt`` comes first, unless they have one. The template describes
    ``tools``, which are schemas of functions.

    Raises:
        SettingsError: a ``system_prompt`` for a prompt that is not a chat.
        ModelError: a chat, but the tokenizer has no chat template or its template refuses it.
    """
    if isinstance(prompt, str) and not chat:
        if system_prompt:
            raise SettingsError("system_prompt needs chat = true: a plain prompt is used unchanged")
        return tuple(tokenizer.encode(prompt))
    if tokenizer.chat_template is None:
        raise ModelError(
            "the tokenizer has no chat template, which chat prompts need: "
            "use plain prompts (chat = false) or save a chat_template with the tokenizer"
        )
    messages = chat_messages(prompt, system_prompt=system_prompt)
    try:
        ids = tokenizer.apply_chat_template(
            messages,
            tools=list(tools) or None,
            tokenize=True,
            add_generation_prompt=True,
            return_dict=False,
        )
    except (TemplateError, TypeError, ValueError) as error:
        raise ModelError(f"the chat template refuses the prompt: {error}") from error
    return tuple(ids)


def chat_messages(
    prompt: str | Sequence[Mapping[str, str]], *, system_prompt: str = ""
) -> list[dict[str, str]]:
    """A prompt as chat messages, with ``system_prompt`` first unless the prompt has one.

    A text becomes the user's message.

    >>> chat_messages("2 + 2?")
    [{'role': 'user', 'content': '2 + 2?'}]
    """
    if isinstance(prompt, str):
        messages = [{"role": "user", "content": prompt}]
    else:
        messages = [dict(message) for message in prompt]
    if system_prompt and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": system_prompt})
    return messages


def stop_token_ids(
    tokenizer: "PreTrainedTokenizerBase",
    model: "PreTrainedModel | None" = None,
    stop: Sequence[str] = (),
) -> tuple[int, ...]:
    """The tokens that end an answer, in increasing order.

    They are the end-of-sequence tokens of the tokenizer and of the model's generation config, and
    ``stop``.

    Raises:
        SettingsError: a stop string is not exactly one token.
    """
    ids = {_single_token(tokenizer, text) for text in stop}
    if tokenizer.eos_token_id is not None:
        ids.add(tokenizer.eos_token_id)
    if model is not None and model.generation_config is not None:
        ends = model.generation_config.eos_token_id
        ids.update([ends] if isinstance(ends, int) else ends or [])
    return tuple(sorted(ids))


def _single_token(tokenizer: "PreTrainedTokenizerBase", text: str) -> int:
    ids = tokenizer.encode(text, add_special_tokens=False)
    if len(ids) != 1 and text in (vocabulary := tokenizer.get_vocab()):
        ids = [vocabulary[text]]
    if len(ids) != 1 or (ids[0] == tokenizer.unk_token_id and text != tokenizer.unk_token):
        tokens = tokenizer.convert_ids_to_tokens(ids)
        raise SettingsError(f"a stop string must be a single token; {text!r} is {tokens}")
    return int(ids[0])


# Turns of a trajectory. The policy's own tokens are never encoded again: the words of the template
# around the results of tools are put behind them (as TRL does). Results are encoded without special
# tokens, so that no tool can end a turn or begin one.

_ANSWER = "e6c1f0d2"
"""A mark for the policy's turn in a template; no template writes it by itself."""


def completion_text(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int]) -> str:
    """The text of a completion, without special tokens and with its spaces unchanged."""
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


class TurnEncoder:
    """Encodes the environment's part of a trajectory: prompts and results of tools.

    With ``chat``, both go through the tokenizer's chat template, which describes the tools to the
    model. Without, a prompt is used unchanged and must describe them itself; a result is a line
    ``RESULT text``.

    ``tools`` are the schemas of ``Environment.tools``, ``system_prompt`` begins every chat. A chat
    template that shows no results of tools is a ModelError.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        tools: Sequence[Mapping[str, Any]],
        *,
        chat: bool,
        system_prompt: str = "",
    ) -> None:
        self._tokenizer, self._tools = tokenizer, [dict(tool) for tool in tools]
        self._chat, self._system_prompt = chat, system_prompt
        unknown = tokenizer.unk_token_id
        self._special = {token for token in tokenizer.all_special_ids if token != unknown}
        if chat:
            self._around(["tool"])

    def prompt(self, problem: Problem, said: str = "") -> tuple[int, ...]:
        """Tokens of a problem's prompt; what ``reset`` has ``said`` follows the last message."""
        asked = problem.prompt
        if isinstance(asked, str):
            asked = asked + said
        else:
            *before, last = asked
            asked = (*before, {**last, "content": last["content"] + said})
        return encode_prompt(
            self._tokenizer,
            asked,
            chat=self._chat,
            system_prompt=self._system_prompt,
            tools=self._tools if self._chat else (),
        )

    def results(
        self, results: Sequence[ToolResult], *, after: int | None = None
    ) -> tuple[int, ...]:
        """Tokens of the results of a turn, up to the beginning of the policy's next turn.

        ``after`` is the last token of the policy's turn: it is not repeated if the template ends a
        turn with it.
        """
        if not self._chat:
            return tuple(t for result in results for t in self._text(f"RESULT {result.text}\n"))
        first, *others = self._around([result.tool for result in results])
        ids = self._template(first)
        if ids[:1] == [after]:
            del ids[0]
        for result, behind in zip(results, others, strict=True):
            ids += self._text(result.text) + self._template(behind)
        return tuple(ids)

    def fitting_results(
        self,
        episode: Episode,
        results: Sequence[ToolResult],
        *,
        written: Sequence[int],
        turn: int,
        room: int,
    ) -> tuple[int, ...] | None:
        """The results of the last turn; if they do not fit, None, and the trajectory is cut off.

        ``written`` are its tokens so far, ``room`` all that it may have, and another turn of
        ``turn`` tokens must fit as well.
        """
        ids = self.results(results, after=written[-1])
        if len(written) + len(ids) + turn > room:
            episode.cut_off(f"no room for another turn in {room} tokens")
            return None
        return ids

    def _around(self, tools: Sequence[str]) -> list[str]:
        """The template's words before the first result, between results, and behind the last."""
        marks = [f"{_ANSWER}{place}" for place in range(len(tools))]
        said = f"{_ANSWER}-"
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": said},
            *(
                {"role": "tool", "name": tool, "content": mark}
                for tool, mark in zip(tools, marks, strict=True)
            ),
        ]
        try:
            text = self._tokenizer.apply_chat_template(
                messages, tools=self._tools or None, tokenize=False, add_generation_prompt=True
            )
        except (TemplateError, ValueError) as error:
            raise ModelError(f"the chat template refuses results of tools: {error}") from error
        parts, rest = [], str(text).partition(said)[2]
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise ModelError(
                    "the chat template shows no results of tools: use plain prompts (chat = false) "
                    "or a model whose template knows the role 'tool'"
                )
            parts.append(before)
        return [*parts, rest]

    def _template(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False)) if text else []

    def _text(self, text: str) -> list[int]:
        ids = self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return [token for token in ids if token not in self._special]

"""Tokens of the turns of a trajectory: a prompt with its tools, and results that the policy reads.

The policy's own tokens are never encoded again: what a template writes around the results of tools
is put behind them as it is (TRL's way). Results are encoded without special tokens, whatever they
contain, so that no tool can end a turn or begin one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from dph.errors import ModelError
from dph.model.prompts import encode_prompt
from dph.records import Problem
from dph.tasks.environments import ToolResult

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ANSWER = "e6c1f0d2"
"""Stands for the policy's turn in a template; no template writes it by itself."""


class TurnEncoder:
    """Encodes what the environment says in a trajectory.

    With ``chat``, prompts and results go through the tokenizer's chat template, which describes the
    tools to the model. Without, a prompt is used unchanged and has to describe them itself; a
    result is a line ``RESULT text``.

    Args:
        tokenizer: of the policy.
        tools: schemas of the tools (``Environment.tools``).
        chat: whether there is a template to go through.
        system_prompt: before every chat.

    Raises:
        ModelError: the chat template shows no results of tools.
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
        """Tokens of a problem's prompt; ``said`` by ``reset``, it follows the last message.

        Raises:
            ModelError: a chat, but the tokenizer has no chat template or its template refuses it.
        """
        asked = problem.prompt
        if not isinstance(asked, str):
            *before, last = asked
            asked = (*before, {**last, "content": last["content"] + said})
        else:
            asked = asked + said
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
        """Tokens of the results of a turn, up to where the policy's next turn begins.

        ``after`` is the last token of the policy's turn: it is not repeated where it is the one
        with which the template ends a turn.
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

    def _around(self, tools: Sequence[str]) -> list[str]:
        """The template's words before the first result, between them and behind the last."""
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

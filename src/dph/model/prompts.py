"""From a problem's prompt to token ids, and the tokens that end an answer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from dph.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NO_TEMPLATE = (
    "the tokenizer has no chat template, which chat prompts need: "
    "use plain prompts (chat = false) or save a chat_template with the tokenizer"
)


def encode_prompt(
    tokenizer: "PreTrainedTokenizerBase",
    prompt: str | Sequence[Mapping[str, str]],
    *,
    chat: bool = False,
    system_prompt: str = "",
) -> tuple[int, ...]:
    """The token ids of a prompt.

    A string is encoded as it is, with the special tokens that the tokenizer adds by itself. With
    ``chat`` it becomes a user message. Messages go through the chat template, up to where the
    answer begins, behind ``system_prompt`` if there is one and they bring none of their own.

    Raises:
        SettingsError: a ``system_prompt`` for a prompt that is not a chat.
        ModelError: a chat, but the tokenizer has no chat template or its template refuses it.
    """
    if isinstance(prompt, str) and not chat:
        if system_prompt:
            raise SettingsError("system_prompt needs chat = true: a plain prompt is taken as it is")
        return tuple(tokenizer.encode(prompt))
    if tokenizer.chat_template is None:
        raise ModelError(NO_TEMPLATE)
    messages = chat_messages(prompt, system_prompt=system_prompt)
    try:
        ids = tokenizer.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=False
        )
    except TemplateError as error:
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

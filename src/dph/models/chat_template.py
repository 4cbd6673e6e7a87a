"""Chat templates: whether there is one, and the variables that a recipe sets in it."""

import json
from collections.abc import Mapping

from jinja2 import Environment, TemplateError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from transformers import PreTrainedTokenizerBase

from dph.errors import ModelError, SettingsError

TemplateValue = bool | int | float | str


def wants_chat(tokenizer: PreTrainedTokenizerBase, chat: bool | str) -> bool:
    """Whether text prompts become user messages; "auto": where there is a chat template."""
    return tokenizer.chat_template is not None if chat == "auto" else bool(chat)


def set_template_variables(
    tokenizer: PreTrainedTokenizerBase, variables: Mapping[str, TemplateValue]
) -> None:
    """Set variables in the tokenizer's own chat template, such as ``enable_thinking = false``.

    They become part of the template, so they count in the tokenizer's fingerprint, and a tokenizer
    that is saved with a checkpoint makes the same prompts wherever it is loaded.

    Raises:
        ModelError: there is no chat template, or it is damaged.
        SettingsError: the template reads no such variable; says which it reads.
    """
    if not variables:
        return
    template = tokenizer.chat_template
    if not isinstance(template, str):
        has = "no chat template" if template is None else "several chat templates"
        raise ModelError(f"data.template sets variables, but the tokenizer has {has}")
    try:
        read = meta.find_undeclared_variables(_environment().parse(template))
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
    """``{% generation %}`` of transformers, which marks what the model says."""

    tags = {"generation"}  # noqa: RUF012  # as the base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Its content alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> Environment:
    """What can stand in a template; it is parsed here and rendered by transformers."""
    return Environment(extensions=["jinja2.ext.loopcontrols", _Generation])

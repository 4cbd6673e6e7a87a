"""Chat templates: whether there is one, the variables that a recipe sets in it, and its words.

Nothing here needs transformers, which loads torch.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import Template, TemplateError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dph.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TemplateValue = bool | int | float | str
Templates = str | Mapping[str, str] | None
"""A tokenizer's template, or several by name, of which ``default`` is used."""


def wants_chat(tokenizer: "PreTrainedTokenizerBase", chat: bool | str) -> bool:
    """Whether text prompts become user messages; "auto": where there is a chat template."""
    return tokenizer.chat_template is not None if chat == "auto" else bool(chat)


def set_template_variables(
    tokenizer: "PreTrainedTokenizerBase", variables: Mapping[str, TemplateValue]
) -> None:
    """Set variables in the tokenizer's own chat template (``with_variables``).

    They become part of the template, so they count in the tokenizer's fingerprint, and a tokenizer
    that is saved with a checkpoint makes the same prompts wherever it is loaded.

    Raises:
        ModelError: there is no chat template, or it is damaged.
        SettingsError: the template reads no such variable; says which it reads.
    """
    if variables:
        tokenizer.chat_template = with_variables(tokenizer.chat_template, variables)


def with_variables(template: Templates, variables: Mapping[str, TemplateValue]) -> Templates:
    """The template with variables set in it, such as ``enable_thinking = false``.

    Raises:
        ModelError: there is no chat template, there are several, or it is damaged.
        SettingsError: the template reads no such variable; says which it reads.
    """
    if not variables:
        return template
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
    return lines + template


def chat_text(
    template: str, messages: Sequence[Mapping[str, str]], special_tokens: Mapping[str, str]
) -> str:
    """The messages in the template's words, up to where the answer begins.

    The text is that of transformers' ``apply_chat_template`` with ``add_generation_prompt``.

    Raises:
        ModelError: the template is damaged, or refuses the messages.
    """
    try:
        return _compiled(template).render(
            **special_tokens,
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=True,
        )
    except (TemplateError, TypeError, ValueError) as error:
        raise ModelError(f"the chat template refuses the prompt: {error}") from error


@lru_cache(maxsize=4)
def _compiled(template: str) -> Template:
    return _environment().from_string(template)


class _Generation(Extension):
    """``{% generation %}`` of transformers, which marks what the model says."""

    tags = {"generation"}  # noqa: RUF012  # as the base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Its content alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """What can stand in a template, as transformers has it."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
    )
    made.filters["tojson"] = _as_json
    made.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return made


def _as_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)  # Jinja's own escapes HTML


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)

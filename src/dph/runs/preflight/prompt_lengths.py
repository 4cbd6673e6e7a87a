"""How long prompts are as a model reads them, without transformers."""

from collections.abc import Sequence
from dataclasses import dataclass

from dph.model.chat_template import chat_text, with_variables
from dph.model.prompts import chat_messages
from dph.recipe import DataSettings
from dph.records import Problem
from dph.runs.preflight.tokenizer import TokenizerFiles


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
        """The prompt up to where the answer begins; of a chat in the words of the template.

        Raises:
            ModelError: the template is damaged, or refuses the prompt.
        """
        if isinstance(problem.prompt, str) and not self.wraps_texts:
            return problem.prompt
        messages = chat_messages(problem.prompt, system_prompt=self.system_prompt)
        return chat_text(self.template or "", messages, self.tokenizer.special_tokens)

    def tokens(self, problem: Problem) -> int:
        """Tokens of a problem's prompt; a template brings the special ones itself.

        Raises:
            ModelError: as for ``text``.
        """
        return self.tokenizer.length(self.text(problem), special=not self.is_chat(problem))


def prompt_lengths(data: DataSettings, tokenizer: TokenizerFiles) -> PromptLengths:
    """What measures the prompts of a recipe.

    Raises:
        ModelError: ``data.template`` sets variables and there is no one template.
        SettingsError: the template reads no such variable.
    """
    templates = with_variables(tokenizer.templates, data.template)
    return PromptLengths(
        tokenizer=tokenizer,
        template=templates if isinstance(templates, str) else (templates or {}).get("default"),
        wraps_texts=templates is not None if data.chat == "auto" else bool(data.chat),
        system_prompt=data.system_prompt,
    )


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

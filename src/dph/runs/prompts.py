"""The prompts of a run: how problems are put to the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from dph.model.prompts import encode_prompt
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import check_requests
from dph.model.turns import TurnEncoder
from dph.records import Problem
from dph.tasks.problems import problems_fingerprint
from dph.tasks.shots import Shots


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrompts:
    """A tokenizer, and the settings of ``[data]`` that say how a prompt becomes tokens.

    Attributes:
        chat: whether texts go through the chat template.
        system_prompt: before every chat.
        shots: the recipe's examples before each question, if there are any.
    """

    tokenizer: PreTrainedTokenizerBase
    chat: bool
    system_prompt: str
    shots: Shots | None = None

    def asked(self, problem: Problem) -> Problem:
        """The problem as the model is asked it: behind the recipe's examples, if there are any."""
        if self.shots is None or not problem.prompt:
            return problem
        return self.shots.before(problem, chat=self.chat)

    def fingerprint(self, problems: Sequence[Problem]) -> str:
        """The fingerprint of problems as the model is asked them."""
        return problems_fingerprint(list(map(self.asked, problems)))

    def turns(self, tools: Sequence[Mapping[str, Any]]) -> TurnEncoder:
        """Encoder of prompts and results in an environment with these tools.

        Raises:
            ModelError: the chat template shows no results of tools.
        """
        return TurnEncoder(self.tokenizer, tools, chat=self.chat, system_prompt=self.system_prompt)

    def encode(self, problem: Problem) -> tuple[int, ...]:
        """The tokens of the prompt as it is asked."""
        return encode_prompt(
            self.tokenizer,
            self.asked(problem).prompt,
            chat=self.chat,
            system_prompt=self.system_prompt,
        )

    def require_fit(
        self, config: PreTrainedConfig, problems: Sequence[Problem], *, max_tokens: int
    ) -> None:
        """Refuse prompts that cannot be sampled, before anything is written.

        Raises:
            DataError: a prompt is empty.
            ModelError: a prompt is a chat, and the tokenizer has no template for it.
            SettingsError: a prompt and ``max_tokens`` do not fit the model's context.
        """
        requests = (
            SampleRequest(problem_id=p.problem_id, prompt_ids=self.encode(p), samples=1)
            for p in problems
        )
        check_requests(
            config, requests, SamplingParameters(max_tokens=max_tokens, stop_token_ids=())
        )

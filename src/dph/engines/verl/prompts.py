"""A row of verl's data as the package sees it: a problem, its tokens, the tokens that end it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from omegaconf import DictConfig
from transformers import GenerationConfig, PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from dph._base.randomness import derived_seed
from dph.engines.verl.settings import SharedSettings, shared_settings
from dph.errors import DataError, SettingsError
from dph.model.prompts import encode_prompt
from dph.records import Problem
from dph.tasks.verl import problem_of_row

_COLUMNS = ("data_source", "prompt", "reward_model", "extra_info")


def problem_of_fields(fields: Mapping[str, Any], settings: SharedSettings) -> Problem:
    """The problem of a row as verl hands it to an agent loop or a reward manager."""
    row = {name: _plain(fields[name]) for name in _COLUMNS if name in fields}
    row.setdefault("prompt", _plain(fields.get("raw_prompt")))
    index = int(fields.get("index", 0))
    return problem_of_row(
        row, place=f"row {index}", position=index, ground_truth=settings.ground_truth
    )


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase, problem: Problem, settings: SharedSettings
) -> tuple[int, ...]:
    """The prompt's tokens, the same as in ``dph presample`` and ``dph train``."""
    return encode_prompt(
        tokenizer, problem.prompt, chat=settings.chat, system_prompt=settings.system_prompt
    )


def require_prompts_fit(
    problems: Sequence[Problem],
    settings: SharedSettings,
    config: DictConfig,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Refuse problems whose prompts are longer than verl will take, before anything starts."""
    limit = int(config.actor_rollout_ref.rollout.prompt_length)
    for problem in problems:
        length = len(prompt_ids(tokenizer, problem, settings))
        if not length:
            raise DataError(f"the prompt of problem {problem.problem_id!r} is empty")
        if length > limit:
            raise SettingsError(
                f"the prompt of problem {problem.problem_id!r} has {length} tokens, above "
                f"data.max_prompt_length={limit}"
            )


def stop_ids(config: DictConfig, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The tokens that end an answer: the tokenizer's and the model's generation config's."""
    ids = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
    directory = Path(config.actor_rollout_ref.model.path)
    if (directory / "generation_config.json").is_file():
        ends = GenerationConfig.from_pretrained(directory).eos_token_id
        ids.update([ends] if isinstance(ends, int) else ends or [])
    return tuple(sorted(ids))


def _plain(value: Any) -> Any:
    """A value without the arrays that verl wraps its fields in."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if key not in _ADDED}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


_ADDED = ("num_turns", "rollout_reward_scores")
"""Keys that verl's own reward managers write into ``extra_info``."""


class SingleTurn(AgentLoopBase):  # type: ignore[misc]
    """Like verl's ``single_turn_agent``, but the prompt is tokenised as ``dph train`` does it.

    Plain prompts need no chat template, and every answer's seed is a function of (``dph.seed``,
    problem, step, sample index), for rollouts that take a seed with the request.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        settings = shared_settings(self.config)
        problem = problem_of_fields(kwargs, settings)
        prompt = list(prompt_ids(self.tokenizer, problem, settings))
        if len(prompt) > self.rollout_config.prompt_length:
            raise DataError(
                f"the prompt of problem {problem.problem_id!r} has {len(prompt)} tokens, above "
                f"rollout.prompt_length={self.rollout_config.prompt_length}"
            )
        if settings.seed_requests:
            place = (int(kwargs.get("global_steps", 0)), int(kwargs.get("session_id", 0)))
            seed = derived_seed(settings.seed, "verl", problem.problem_id, *place)
            sampling_params = {**sampling_params, "seed": seed}
        metrics: dict[str, Any] = {}
        with simple_timer("generate_sequences", metrics):
            answer = await self.server_manager.generate(
                request_id=uuid4().hex, prompt_ids=prompt, sampling_params=sampling_params
            )
        limit = self.rollout_config.response_length
        metrics["num_preempted"] = -1 if answer.num_preempted is None else answer.num_preempted
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=answer.token_ids[:limit],
            response_mask=[1] * len(answer.token_ids[:limit]),
            response_logprobs=answer.log_probs[:limit] if answer.log_probs else None,
            num_turns=2,
            metrics=metrics,
            extra_fields={**(answer.extra_fields or {}), "turn_scores": [], "tool_rewards": []},
        )

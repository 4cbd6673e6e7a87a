"""The agent loop: one answer to one prompt, with the package's own tokens and seeds."""

from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from dph._base.randomness import derived_seed
from dph.engines.verl.prompts import problem_of_fields, prompt_ids
from dph.engines.verl.settings import shared_settings
from dph.errors import DataError


class SingleTurn(AgentLoopBase):  # type: ignore[misc]
    """Like verl's ``single_turn_agent``, but the prompt is tokenised as ``dph train`` does it.

    Plain prompts need no chat template, and every answer's seed is a function of (``dph.seed``,
    problem, step, sample index), for rollouts that take a seed with the request.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Draw one answer.

        Raises:
            DataError: the prompt is longer than ``rollout.prompt_length``.
        """
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

"""The agent loop of a recipe's ``[environment]``: a trajectory as in our own engine, turn by turn.

verl's server draws each turn, the environment's process answers, and the loop itself grades the
end, since a reward worker would grade a text that does not show what was done.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from dph._base.randomness import derived_seed
from dph.engines.verl.prompts import problem_of_fields, stop_ids
from dph.engines.verl.reward_manager import told_verdict
from dph.engines.verl.settings import shared_settings
from dph.errors import DataError
from dph.model.prompts import TurnEncoder, completion_text
from dph.model.sampler.graded import CUT_OFF
from dph.recipe import Recipe, load_recipe
from dph.runs.answers import run_verifier
from dph.tasks.environments import Environment, EnvironmentVerifier, Episode
from dph.tasks.verifiers.base import OneAtATime


@lru_cache
def _opened(recipe: Path) -> tuple[Recipe, Environment, OneAtATime | None]:
    """The environment of a recipe and its grader, made once for each worker.

    Trajectories of a worker end at the same time, and a verifier takes one answer at a time.
    """
    read = load_recipe(recipe)
    task = run_verifier(read)
    assert isinstance(task, EnvironmentVerifier)
    grader = None if task.verifier is None else OneAtATime(task.verifier)
    return read, task.environment, grader


_WEIGHTS = {"min_global_steps": min, "max_global_steps": max}
"""Of the steps after which the weights of a trajectory's turns were made."""


@dataclass(slots=True)
class _Row:
    """Tokens of a trajectory, and whether the policy wrote them."""

    ids: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)
    """Fields of verl's server about each turn."""

    def add(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> None:
        """Append a turn, or with None something that the policy read."""
        self.ids += ids
        self.written += [int(logprobs is not None)] * len(ids)
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs


class Trajectory(AgentLoopBase):  # type: ignore[misc]
    """Draws one trajectory; its seeds are functions of (``dph.seed``, problem, step, sample)."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        settings = shared_settings(self.config)
        assert settings.environment is not None
        recipe, environment, grader = _opened(settings.environment)
        problem = problem_of_fields(kwargs, settings)
        step, member = (int(kwargs.get(name, 0)) for name in ("global_steps", "session_id"))
        encoder = TurnEncoder(
            self.tokenizer,
            environment.tools,
            chat=settings.chat,
            system_prompt=settings.system_prompt,
        )
        begin = partial(environment.begin, problem, member=member)
        episode = await asyncio.to_thread(begin, seed=derived_seed(settings.seed, "verl", step))
        metrics: dict[str, Any] = {"num_preempted": -1}
        with episode:
            prompt = list(encoder.prompt(problem, episode.said))
            if len(prompt) > self.rollout_config.prompt_length:
                raise DataError(
                    f"the prompt of problem {problem.problem_id!r} has {len(prompt)} tokens with "
                    f"the words of reset, above rollout.prompt_length="
                    f"{self.rollout_config.prompt_length}"
                )
            first = derived_seed(settings.seed, "verl", problem.problem_id, step, member)
            seed = first if settings.seed_requests else None
            params = {**sampling_params, "max_tokens": recipe.sampling.max_tokens}
            with simple_timer("generate_sequences", metrics):
                row = await self._act(episode, encoder, prompt, params, seed)
            verdict = await asyncio.to_thread(episode.verdict_by, grader, problem)
        said = row.said or [dict.fromkeys(_WEIGHTS, max(step - 1, 0))]
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=row.ids or [self.tokenizer.eos_token_id],
            response_mask=row.written or [0],
            response_logprobs=row.logprobs or [0.0],
            reward_score=verdict.reward,
            num_turns=2 * episode.turns,
            metrics=metrics,
            extra_fields={
                **said[-1],
                **{name: found(turn[name] for turn in said) for name, found in _WEIGHTS.items()},
                "turn_scores": [],
                "tool_rewards": [],
                "reward_extra_info": told_verdict(verdict, score=verdict.reward),
            },
        )

    async def _act(
        self,
        episode: Episode,
        encoder: TurnEncoder,
        prompt: Sequence[int],
        params: dict[str, Any],
        seed: int | None,
    ) -> _Row:
        row, stops = _Row(), stop_ids(self.config, self.tokenizer)
        room = self.rollout_config.response_length
        if episode.ending is not None:
            return row
        while True:
            if seed is not None:
                turn = episode.turns
                params["seed"] = derived_seed(seed, "turn", turn) if turn else seed
            answer = await self.server_manager.generate(
                request_id=uuid4().hex, prompt_ids=[*prompt, *row.ids], sampling_params=dict(params)
            )
            row.said.append(dict(answer.extra_fields))
            ids = answer.token_ids
            row.add(ids, answer.log_probs or [0.0] * len(ids))
            if not ids or ids[-1] not in stops:
                episode.cut_off(CUT_OFF.reason)
                return row
            text = completion_text(self.tokenizer, ids)
            results = await asyncio.to_thread(episode.step, text)
            if not results:
                return row
            read = encoder.fitting_results(
                episode, results, written=row.ids, turn=params["max_tokens"], room=room
            )
            if read is None:
                return row
            row.add(read, None)

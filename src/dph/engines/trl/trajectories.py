"""Trajectories of a recipe's ``[environment]`` in TRL: drawn and graded as in our own engine.

TRL's ``environment_factory`` runs a class inside the trainer's own process, in which a tool that
hangs or dies ends the run. Here TRL's ``rollout_func`` draws instead, and its reward function tells
what each trajectory was worth.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dph._base.randomness import derived_seed
from dph.engines.trl.dataset import LogMetric, Observe, RewardFunction, told_rewards
from dph.model.sampler.episodes import EpisodeSampler
from dph.records import Completion, GradedCompletion, Problem, Verdict

VERDICT = "verdict"
"""The field of a rollout that holds what its trajectories are worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectories:
    """A ``rollout_func`` for ``DPHTrainer``, which tells it the rows that TRL asks for.

    Attributes:
        draw: draws with the weights that the trainer trains.
        problems: by id.
        seed: of the run. With the number of a rollout it gives the seed that our own loop has.
    """

    draw: EpisodeSampler
    problems: Mapping[str, Problem]
    seed: int

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Draw a trajectory for each row; ``env_mask`` is 1 where the policy wrote.

        Raises:
            VerifierError: as ``EpisodeSampler``.
        """
        del prompts  # those of the rows, before ``reset`` said anything
        ids = [str(row["problem_id"]) for row in trainer.asked]
        seed = derived_seed(self.seed, "rollout", trainer.rollout, 0)
        first = trainer.accelerator.process_index * len(ids)
        found: list[tuple[tuple[int, ...], GradedCompletion] | None] = [None] * len(ids)
        for (samples, index), places in _parts(ids, first, trainer.num_generations).items():
            asked = [self.problems[ids[place]] for place in places]
            rollout = self.draw(asked, samples=samples, seed=seed, first_index=index)
            for place, prompt, group in zip(places, rollout.prompts, rollout.groups, strict=True):
                found[place : place + samples] = [(prompt, graded) for graded in group]
        rows = [row for row in found if row is not None]
        drawn = [graded.completion for _, graded in rows]
        return {
            "prompt_ids": [list(prompt) for prompt, _ in rows],
            # TRL looks at a last token, which a trajectory that ``reset`` did not begin lacks.
            "completion_ids": [list(row.token_ids) or [trainer.pad_id] for row in drawn],
            "env_mask": [list(map(int, _written(row))) or [0] for row in drawn],
            "logprobs": None,  # those of the same weights: TRL needs none
            VERDICT: [graded.verdict for _, graded in rows],
        }


def _written(completion: Completion) -> Sequence[bool]:
    return completion.written or (True,) * len(completion.token_ids)


def _parts(ids: Sequence[str], first: int, size: int) -> dict[tuple[int, int], list[int]]:
    """Places where groups begin, by their samples here and the number of the first of these.

    A group that lies on two processes begins alike in both: its members have their numbers.
    """
    parts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for begin, length in _runs(ids, first, size):
        parts[length, (first + begin) % size].append(begin)
    return parts


def _runs(ids: Sequence[str], first: int, size: int) -> Iterator[tuple[int, int]]:
    places = groupby(range(len(ids)), key=lambda place: (ids[place], (first + place) // size))
    for _, run in places:
        begin, *others = run
        yield begin, 1 + len(others)


def trajectory_rewards(name: str, observe: Observe) -> RewardFunction:
    """The reward function of ``Trajectories``, under the environment's name.

    ``observe`` is told all verdicts, as by ``reward_function``.
    """

    def reward(
        *,
        problem_id: Sequence[str],
        verdict: Sequence[Verdict],
        log_metric: LogMetric,
        **_: Any,
    ) -> list[float | None]:
        observe(log_metric, verdict)
        return told_rewards(problem_id, verdict)

    reward.__name__ = name
    return reward

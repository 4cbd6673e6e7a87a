import pytest
import torch

from asking_policy import TURN, initial_policy, make_tokenizer, problems
from dph import make_verifier
from dph._base.randomness import generator
from dph.model.prompts import TurnEncoder
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import Minibatch
from dph.runs.train.updating import update
from dph.tasks.environments import Environment
from environment_classes import Lookup
from loop_parts import group_of, training_forward


def make_draw(model, tokenizer, environment, verifier, *, greedy=False, tokens=4 * TURN):
    return EpisodeSampler(
        sampler=TorchSampler(model, tokenizer),
        environment=environment,
        encoder=TurnEncoder(tokenizer, environment.tools, chat=False),
        parameters=SamplingParameters(max_tokens=TURN, stop_token_ids=(1,), greedy=greedy),
        tokens=tokens,
        verifier=verifier,
    )


def mean_reward(rollout):
    rewards = [graded.verdict.reward for group in rollout.groups for graded in group]
    return sum(rewards) / len(rewards)


@pytest.mark.slow
def test_a_policy_that_mostly_guesses_learns_to_ask():
    tokenizer = make_tokenizer()
    model = initial_policy(tokenizer)
    settings = ObjectiveSettings()
    objective = make_objective(settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    forward = training_forward(model, token_budget=4096, max_tokens=4 * TURN)
    asked = problems()
    with (
        Environment(Lookup, form="plain", hidden=["answer"]) as environment,
        make_verifier("exact") as verifier,
    ):
        greedy = make_draw(model, tokenizer, environment, verifier, greedy=True)
        before = mean_reward(greedy(asked, samples=1, seed=0))
        draw = make_draw(model, tokenizer, environment, verifier)
        for step in range(1, 36):
            chosen = generator(1, "step", step).permutation(len(asked))[:6]
            rollout = draw([asked[i] for i in chosen], samples=8, seed=step)
            groups = [
                group_of(*group, prompt=prompt)
                for prompt, group in zip(rollout.prompts, rollout.groups, strict=True)
            ]
            scorers = Scorers(old=None, reference=None)
            rows = policy_rows(groups, forward, scorers, objective=objective, settings=settings)
            minibatch = Minibatch(groups=rows.groups, stored={})
            report = update(minibatch, forward, optimizer, objective=objective, max_grad_norm=1.0)
            if report.gap is not None:  # the sampler's log-probs are those of training
                assert report.gap.mean < 1e-5
        trained = greedy(asked, samples=1, seed=0)
        after = mean_reward(trained)
    assert before < 0.3  # chance is 1/8
    assert after > 0.8
    assert {graded.style for group in trained.groups for graded in group} == {"look"}

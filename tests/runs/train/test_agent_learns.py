"""A small policy learns to ask: the question cannot be answered without a query."""

from itertools import product

import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers

from dph import Problem, make_verifier
from dph._base.randomness import generator
from dph.loss.objectives import make_objective
from dph.model.forward.logprobs import completion_scores
from dph.model.sampler import EpisodeSampler, SamplingParameters, TorchSampler
from dph.model.turns import TurnEncoder
from dph.recipe import ObjectiveSettings
from dph.runs.train.collect import Group
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import Minibatch
from dph.runs.train.updating import update
from dph.tasks.environments import Environment
from environment_classes import Lookup

KEYS, VALUES = [f"k{i}" for i in range(6)], [f"v{i}" for i in range(8)]
ASKED, TURN = 0.07, 6
"""Share of the initial policy's answers that ask first; tokens of a turn."""


def make_tokenizer():
    words = ["<pad>", "<eos>", "<unk>", "CALL", "RESULT", "nothing", *KEYS, *VALUES]
    words += [f'look("{key}")' for key in KEYS]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def problems():
    return [
        Problem(
            problem_id=f"{key}{value}",
            prompt=key,
            answer={"key": key, "value": value, "answer": value},
        )
        for key, value in product(KEYS, VALUES)
    ]


def demonstrations(tokenizer, random, asked):
    """Some that ask and read, most that guess: tokens, and which of them a policy writes."""
    for _ in range(64):
        key, value = random.choice(KEYS), random.choice(VALUES)
        turns = [(f"{value} <eos>", True)]
        if random.random() < asked:
            turns = [
                (f'CALL look("{key}") <eos>', True),
                (f"RESULT {value}", False),
                (f"{value} <eos>", True),
            ]
        ids = [(t, mine) for text, mine in turns for t in tokenizer.encode(text)]
        yield tokenizer.encode(key), [t for t, _ in ids], [mine for _, mine in ids]


def initial_policy(tokenizer):
    torch.manual_seed(0)
    config = tf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        initializer_range=0.1,
    )
    model = tf.LlamaForCausalLM(config)
    optimizer, random = torch.optim.AdamW(model.parameters(), lr=2e-3), generator(0, "shown")
    for number in range(150):  # first how to ask, then how seldom
        asked = 0.5 if number < 100 else ASKED
        prompts, rows, written = zip(*demonstrations(tokenizer, random, asked), strict=True)
        scores = completion_scores(model, prompts, rows, temperature=1.0, pad_id=0, written=written)
        (-scores.logprobs[scores.mask].mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


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
    forward = TrainingForward(
        model=model,
        pad_id=0,
        temperature=1.0,
        dtype="float32",
        token_budget=4096,
        max_tokens=4 * TURN,
    )
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
                Group(prompt_ids=prompt, completions=group)
                for prompt, group in zip(rollout.prompts, rollout.groups, strict=True)
            ]
            rows = policy_rows(
                groups,
                forward,
                Scorers(old=None, reference=None),
                objective=objective,
                settings=settings,
                check_sampler=step == 1,
            )
            if step == 1:
                assert rows.gap.mean < 1e-5  # the sampler's log-probs are those of training
            minibatch = Minibatch(groups=rows.groups, stored={})
            update(minibatch, forward, optimizer, objective=objective, max_grad_norm=1.0)
        trained = greedy(asked, samples=1, seed=0)
        after = mean_reward(trained)
    assert before < 0.3  # chance is 1/8
    assert after > 0.8
    assert {graded.style for group in trained.groups for graded in group} == {"look"}

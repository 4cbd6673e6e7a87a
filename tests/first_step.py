"""One rollout for all engines: answers with rewards, stored answers, and what our own step is.

Policy and initial policy are the same, as at the first step of every run. Advantages are not
divided by the deviation of their group: TRL adds 1e-4 to it where we and verl add 1e-6.
"""

import random
from functools import cache

import torch

from dph.recipe import ObjectiveSettings
from dph.records import Problem
from dph.runs.objective import make_objective
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import Minibatch, PolicyRow
from dph.runs.train.updating import TrainingForward, update
from scored_completions import score_completions
from tiny_models import VOCABULARY, build_model, build_tokenizer

TEMPERATURE, MAX_TOKENS, ETA = 0.9, 8, 0.5
PROBLEMS, SAMPLES, STORED = 4, 4, 8
OBJECTIVE = {
    "advantage": {"kind": "group", "scale": "none"},
    "surrogate": {"clip_low": 0.2, "clip_high": 0.28},
    "anchors": {"rehearsal": {"divergence": "forward_kl", "form": "nll", "weight": ETA}},
}
AGREE = 1e-5


def make_model():
    return build_model(initializer_range=0.1)


def _tokens(rng, longest):
    return tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(2, longest)))


def problems():
    rng = random.Random(11)
    texts = [" ".join(f"w{t}" for t in _tokens(rng, 6)) for _ in range(PROBLEMS)]
    return [
        Problem(problem_id=f"p{i}", prompt=text, answer={"answer": str(i)})
        for i, text in enumerate(texts)
    ]


@cache
def groups():
    """For every prompt its answers (tokens without an end, rewards in quarters)."""
    rng = random.Random(12)
    return {
        p.prompt: tuple((_tokens(rng, MAX_TOKENS), rng.randrange(5) / 4) for _ in range(SAMPLES))
        for p in problems()
    }


def scored(prompts, completions, *, acts=False):
    return score_completions(
        make_model(),
        prompts,
        completions,
        written=[flags(tokens) for tokens in completions] if acts else None,
        temperature=TEMPERATURE,
        pad_id=0,
        token_budget=4096,
        dtype="float32",
    )


def flags(tokens):
    return tuple(place % 3 != 1 for place in range(len(tokens)))


def stored_rows(*, acts=False):
    rng = random.Random(13)
    pairs = [(_tokens(rng, 6), _tokens(rng, 8)) for _ in range(STORED)]
    prompts, completions = zip(*pairs, strict=True)
    return [
        RehearsalSample(
            problem_id=f"s{i}",
            sample_index=8,
            prompt_ids=prompts[i],
            completion_ids=completions[i],
            ref_logprobs=tuple(values),
            correct=8,
            written=flags(completions[i]) if acts else None,
        )
        for i, values in enumerate(scored(prompts, completions, acts=acts))
    ]


def policy_groups(*, acts=False):
    tokenizer, found = build_tokenizer(), []
    for prompt, answers in groups().items():
        ids = tuple(tokenizer.encode(prompt))
        mean = sum(reward for _, reward in answers) / len(answers)
        old = scored([ids] * len(answers), [tokens for tokens, _ in answers], acts=acts)
        found.append(
            tuple(
                PolicyRow(
                    prompt_ids=ids,
                    completion_ids=tokens,
                    advantage=reward - mean,
                    old_logprobs=tuple(values),
                    written=flags(tokens) if acts else None,
                )
                for (tokens, reward), values in zip(answers, old, strict=True)
            )
        )
    return tuple(found)


def own_step(*, acts=False):
    """Loss and gradient norm of the first step in this package's own engine.

    ``acts``: of the same tokens as trajectories, which a tool wrote in part.
    """
    model = make_model()
    forward = TrainingForward(
        model=model,
        pad_id=0,
        temperature=TEMPERATURE,
        dtype="float32",
        token_budget=4096,
        max_tokens=MAX_TOKENS,
    )
    report = update(
        Minibatch(
            groups=policy_groups(acts=acts), stored={"rehearsal": tuple(stored_rows(acts=acts))}
        ),
        forward,
        torch.optim.AdamW(model.parameters(), lr=0.0),
        objective=make_objective(ObjectiveSettings(**OBJECTIVE)),
        max_grad_norm=1e9,
    )
    return report.policy + ETA * report.anchors["rehearsal"], report.grad_norm

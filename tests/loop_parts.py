"""Answers, rows and recipes for tests of the training loop: each says only what it is about."""

import torch

from dph.model.sampler.graded import Rollout
from dph.recipe import ObjectiveSettings, TrainingSettings, resolve_recipe
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.collect import Group, collect
from dph.runs.train.rows import Position
from dph.runs.train.updating import TrainingForward
from scored_completions import score_completions

FORWARD = {"temperature": 1.0, "pad_id": 0, "token_budget": 99, "dtype": "float32"}


def completion(ids=(1,), *, problem="p", index=0, logprobs=None, finished=True, text=""):
    return Completion(
        problem_id=problem,
        sample_index=index,
        token_ids=ids,
        logprobs=(-1.0,) * len(ids) if logprobs is None else logprobs,
        finished=finished,
        text=text,
    )


def graded(outcome=Outcome.WRONG, ids=(1,), *, reward=None, reason="", style=None, **answer):
    reward = float(outcome is Outcome.CORRECT) if reward is None else reward
    return GradedCompletion(
        completion=completion(ids, **answer),
        verdict=Verdict(outcome=outcome, reward=reward, reason=reason),
        style=style,
    )


def group_of(*answers, prompt=(3, 4), labelled=True):
    return Group(prompt_ids=prompt, completions=answers, labelled=labelled)


def rollout_of(problems, groups):
    """What a sampler gives for problems with the prompt (1,)."""
    return Rollout(
        problems=tuple(problems),
        prompts=((1,),) * len(problems),
        groups=tuple(groups),
        sampling_seconds=0.0,
        grading_seconds=0.0,
    )


def collected(draw, *, names, wanted, samples, step=1, unlabelled=None, **objective):
    """What a step of ``wanted`` groups is made of."""
    return collect(
        [Problem(problem_id=name, prompt="") for name in names],
        draw,
        Position(),
        step=step,
        seed=0,
        train=TrainingSettings(
            problems_per_step=wanted, samples_per_problem=samples, minibatches=1
        ),
        objective=ObjectiveSettings(**objective),
        unlabelled=unlabelled,
    )


def stored_answer(
    ids=(1,), ref_logprobs=None, *, prompt=(1,), problem="p", index=0, correct=8, written=None
):
    """A sample of a pool."""
    return RehearsalSample(
        problem_id=problem,
        sample_index=index,
        prompt_ids=prompt,
        completion_ids=ids,
        ref_logprobs=(-1.0,) * len(ids) if ref_logprobs is None else ref_logprobs,
        correct=correct,
        written=written,
    )


def training_forward(model, **changes):
    return TrainingForward(model=model, **{**FORWARD, "max_tokens": 8, **changes})


def score(model, prompt, ids):
    """Log-probs of one answer, by the training forward."""
    return score_completions(model, [prompt], [ids], **FORWARD)[0]


def letters_recipe(method="grpo", *, train=None, **sections):
    """A recipe of the letter task for the loop alone, which reads no file."""
    usual = {
        "steps": 4,
        "problems_per_step": 4,
        "samples_per_problem": 4,
        "learning_rate": 1e-2,
        "checkpoint_every": 1,
    }
    table = {
        "method": method,
        "model": {"path": "letters", "dtype": "float32"},
        "data": {"train": "letters.jsonl"},
        "sampling": {"max_tokens": 8},
        "train": {**usual, **(train or {})},
    }
    return resolve_recipe({**table, **sections})


class Frozen(torch.optim.SGD):
    """Keeps the gradient of the step instead of taking it."""

    def step(self):
        self.kept = [p.grad.clone() for g in self.param_groups for p in g["params"]]

    @property
    def gradient(self):
        return torch.cat([kept.flatten() for kept in self.kept])


class Killed(BaseException):
    pass


def killed_after(step):
    """For ``on_step``: the process ends before the step is saved."""

    def kill(metrics):
        if metrics["step"] == step:
            raise Killed

    return kill

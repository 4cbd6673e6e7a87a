from contextlib import nullcontext

import pytest

from dph.runs.directory import latest_checkpoint
from dph.runs.train.loop import Actors, train
from letter_task import *  # noqa: F403


@pytest.fixture(scope="session")
def start(make_model, make_draw, tokenizer, problems):
    """Train from the newest checkpoint in a directory, with another sampler by ``change``."""

    def run(
        recipe,
        directory,
        *,
        stored=None,
        explored=None,
        change=lambda draw: draw,
        measuring=None,
        seed=0,
        **more,
    ):
        policy = make_model(seed)
        checkpoint = latest_checkpoint(directory / "checkpoints")
        if checkpoint:
            policy = type(policy).from_pretrained(checkpoint)
        reference = make_model() if recipe.objective.needs_reference_model else None
        evaluations = measuring(policy, directory) if measuring else None
        actors = Actors(
            policy=policy,
            tokenizer=tokenizer,
            reference=reference,
            draw=change(make_draw(policy)),
            evaluations=evaluations,
        )
        more = {"digest": "d", "loaded": checkpoint, **more}
        with evaluations or nullcontext():
            return train(recipe, directory, actors, explored or problems, stored or {}, **more)

    return run

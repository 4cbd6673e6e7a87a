"""The base model of the letters, which says any of the three."""

from random import Random

import torch
from tokenizers import pre_tokenizers

from lab.worlds.small_model import (
    NO_TARGET,
    SPECIAL,
    AnswerRows,
    train_model,
    train_once,
    word_tokenizer,
)
from lab.worlds.world import fingerprint
from letters_world.kind import LETTERS


def make_tokenizer():
    return word_tokenizer((*SPECIAL, *LETTERS, "->"), pre_tokenizers.WhitespaceSplit())


def batches(tokenizer, rng, steps):
    for _ in range(steps):
        texts = [rng.choices(LETTERS, k=3) for _ in range(16)]
        words = [[*letters, "->", rng.choice(letters)] for letters in texts]
        ids = torch.tensor([tokenizer.convert_tokens_to_ids(row) for row in words])
        start = torch.full((16, 1), tokenizer.bos_token_id)
        end = torch.full((16, 1), tokenizer.eos_token_id)
        tokens = torch.cat([start, ids, end], dim=1)
        targets = tokens[:, 1:].clone()
        targets[:, :4] = NO_TARGET
        yield [AnswerRows(input_ids=tokens[:, :-1], targets=targets)]


def train_base_model(world, directory, *, seed, steps, on_progress=None):
    def taught(model, tokenizer):
        rng = Random(f"letters {seed}: base model")
        train_model(model, batches(tokenizer, rng, steps), steps=steps, on_progress=on_progress)

    train_once(
        directory,
        make_tokenizer,
        taught,
        world=fingerprint(world),
        seed=seed,
        steps=steps,
        on_progress=on_progress,
    )

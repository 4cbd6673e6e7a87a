"""A small policy that mostly guesses where it could ask: for tests of environments."""

from itertools import product

import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers

from dph import Problem
from dph._base.randomness import generator
from dph.model.forward.logprobs import completion_scores
from tiny_models import tiny_llama

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
    sizes = {"intermediate_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64}
    ends = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    model = tiny_llama(tokenizer, 48, **sizes, **ends, initializer_range=0.1).train()
    optimizer, random = torch.optim.AdamW(model.parameters(), lr=2e-3), generator(0, "shown")
    for number in range(150):  # first how to ask, then how seldom
        asked = 0.5 if number < 100 else ASKED
        prompts, rows, written = zip(*demonstrations(tokenizer, random, asked), strict=True)
        scores = completion_scores(model, prompts, rows, temperature=1.0, pad_id=0, written=written)
        (-scores.logprobs[scores.mask].mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()

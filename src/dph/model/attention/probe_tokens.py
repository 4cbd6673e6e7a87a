"""Tokens to ask a model with: those of the prompts that it is to be used on."""

import random
from collections.abc import Sequence
from itertools import chain, cycle, islice

from transformers import PreTrainedConfig

COUNT = 10
"""Different tokens that rows of a probe are made of."""


def probe_tokens(config: PreTrainedConfig, prompts: Sequence[Sequence[int]]) -> list[int]:
    """`COUNT` tokens, all different where the vocabulary has that many.

    The first of ``prompts``, without those that begin, end or pad a text; then others of the
    vocabulary, by a seeded choice. Tokens by their number alone (1, 2, 3) are often special ones,
    which training has hardly touched: a model rounds worst on them.
    """
    text = config.get_text_config()
    special = {
        token
        for name in ("bos_token_id", "eos_token_id", "pad_token_id")
        for token in _listed(getattr(text, name, None))
    }
    vocabulary = range(text.vocab_size)
    others = random.Random(0).sample(vocabulary, min(len(vocabulary), COUNT + len(special)))
    found: dict[int, None] = {}
    for token in chain(chain.from_iterable(prompts), others):
        if len(found) == COUNT:
            break
        if token not in special:
            found[token] = None
    return list(islice(cycle(found or [0]), COUNT))


def _listed(value: int | Sequence[int] | None) -> Sequence[int]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else value

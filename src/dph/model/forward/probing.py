"""A model's own logits, and how far rounding moves them."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

# Two ways of computing the same thing differ by rounding, and by how much depends on the model, its
# tokens and its precision: a token that was hardly trained can make activations so large that
# logits in bfloat16 are off by more than they mean. So the model is asked, by Monte Carlo
# arithmetic (D. S. Parker, 1997): every output of its modules is moved up or down, at random, by
# as much as it may be off.

DRAWS = 8
"""Random roundings that the model's own movement is measured by."""
MOST = 2.0
"""Movements by which two computations may differ: each is at most one away from the exact value."""


@dataclass(frozen=True, slots=True)
class OwnLogits:
    """The last logits of a row that a model runs by itself.

    Attributes:
        values: as the model gives them.
        moved: the same row in a batch of `DRAWS`, each rounded in its own way.
    """

    values: Float[Tensor, "tokens vocabulary"]
    moved: Float[Tensor, "draws tokens vocabulary"]

    def agree_with(self, ours: Float[Tensor, "tokens vocabulary"]) -> bool:
        """True if ``ours`` differ by no more than rounding explains."""
        movement = root_mean_square(self.moved, self.values)
        return root_mean_square(ours, self.values) <= MOST * movement


Row = tuple[Sequence[int], int]
"""Tokens, and the number of the last ones at which there is a prediction."""


def own_logits(model: PreTrainedModel, rows: Sequence[Row]) -> list[OwnLogits]:
    """The model's logits of each row, of one pass of all and of one of `DRAWS` rounded copies."""
    values = last_logits(model, rows)
    with rounded_anew(model):
        moved = last_logits(model, rows, copies=DRAWS)
    return [OwnLogits(own[0], drawn) for own, drawn in zip(values, moved, strict=True)]


def last_logits(
    model: PreTrainedModel, rows: Sequence[Row], *, copies: int = 1
) -> list[Float[Tensor, "copies _ vocabulary"]]:
    """The logits of ``copies`` of each row, in one pass; no token sees the padding on its right."""
    width = max(len(ids) for ids, _ in rows)
    padded = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids, _ in rows])
    batch = padded.repeat(copies, 1).to(model.device)
    mask = torch.ones_like(batch)
    logits: Tensor = model(input_ids=batch, attention_mask=mask, use_cache=False).logits
    by_row = logits.reshape(copies, len(rows), *logits.shape[1:])
    return [by_row[:, i, len(ids) - last : len(ids)] for i, (ids, last) in enumerate(rows)]


def sees_later_tokens(model: PreTrainedModel, ids: Sequence[int]) -> bool:
    """True if the logits at half of a row change with the rest of it, by more than rounding."""
    half = len(ids) // 2
    own = own_logits(model, [(ids[:half], 1)])[0]
    within = last_logits(model, [(ids, len(ids) - half + 1)])[0][0, :1]
    return not own.agree_with(within)


@contextmanager
def rounded_anew(model: nn.Module, draw: int = 0) -> Iterator[None]:
    """Every output of a module without parts is moved by its rounding, up or down at random.

    Computed as: a relative u + sqrt(n) v. u is half the spacing of the output's precision, v that
    of the sums (float32 for 16 bits), n the width of the input: rounding of a sum of n terms grows
    with the root of n (Higham and Mary 2019). The same ``draw`` moves a module's outputs of the
    same shape alike, as gradient checkpointing needs; torch's own random numbers stay the same.
    """
    leaves = [module for module in model.modules() if not any(True for _ in module.children())]
    handles = [
        module.register_forward_hook(partial(_moved, seed=draw * len(leaves) + number))
        for number, module in enumerate(leaves)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def root_mean_square(found: Tensor, wanted: Tensor) -> float:
    """The distance of two tensors by element; NaN counts as 0."""
    # NaN comes from lost weights, which are refused where the values are used.
    apart = found.detach().nan_to_num() - wanted.detach().nan_to_num()
    return float(apart.float().square().mean().sqrt())


def _moved(_module: nn.Module, inputs: Any, output: Any, *, seed: int) -> Any:
    if isinstance(output, tuple):
        return tuple(_moved(_module, inputs, part, seed=seed) for part in output)
    plain = isinstance(output, Tensor) and output.is_floating_point()
    if not plain or any(output is given for given in inputs):  # dropout that does nothing
        return output
    exact = torch.promote_types(output.dtype, torch.float32)
    terms = inputs[0].shape[-1] if inputs and isinstance(inputs[0], Tensor) else 1
    size = (torch.finfo(output.dtype).eps + terms**0.5 * torch.finfo(exact).eps) / 2
    generator = torch.Generator(output.device).manual_seed(seed)
    factor = torch.empty(output.shape, dtype=exact, device=output.device)
    factor.bernoulli_(generator=generator).mul_(2 * size).add_(1 - size)
    return (output * factor).to(output.dtype)


COUNT = 10
"""Number of different tokens in the rows of a probe."""


def probe_tokens(config: PreTrainedConfig, prompts: Sequence[Sequence[int]]) -> list[int]:
    """`COUNT` tokens, all different if the vocabulary has that many.

    The first of ``prompts``, without those that begin, end or pad a text; then others of the
    vocabulary, by a seeded choice. The first tokens by number (1, 2, 3) are often special ones,
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

"""Several answers to one prompt in one row: the prompt runs once, and each answer sees only it.

A block is a prompt without its last token, then for every answer that last token and the answer
without its end. Each answer's tokens continue the prompt's positions and attend to the prompt
and to themselves, so their log-probs are those of a row of their own. A row may hold several
blocks, which do not see each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NO_TARGET = -1


@dataclass(frozen=True, slots=True)
class Block:
    """A prompt and its answers as token ids; an answer includes its end-of-text token."""

    prompt: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.prompt) - 1 + sum(map(len, self.answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBlocks:
    """The tensors of a packed forward pass."""

    input_ids: Int[Tensor, "rows tokens"]
    positions: Int[Tensor, "rows tokens"]
    targets: Int[Tensor, "rows tokens"]
    """The next token of the answer; NO_TARGET on prompts and padding."""
    attention: Float[Tensor, "rows 1 tokens tokens"] | None
    """0 where a token may look, the smallest float where not; fits SDPA and eager attention.

    None where every row holds one answer and no padding: a token sees all before it, which is
    faster than a mask that says so.
    """


def pack_blocks(blocks: Sequence[Block], *, pad_id: int) -> PackedBlocks:
    """Lay blocks into rows no longer than the longest block, first fit by falling length."""
    width = max(map(len, blocks))
    rows: list[list[Block]] = []
    for block in sorted(blocks, key=len, reverse=True):
        room = (row for row in rows if sum(map(len, row)) + len(block) <= width)
        row = next(room, None)
        if row is None:
            rows.append([block])
        else:
            row.append(block)
    columns = torch.tensor([_row_columns(row, width, pad_id) for row in rows])
    ids, positions, targets, block_of, answer_of = columns.unbind(-1)
    allowed = _allowed(block_of, answer_of)
    attention = torch.zeros(allowed.shape).masked_fill_(~allowed, torch.finfo(torch.float32).min)
    return PackedBlocks(
        input_ids=ids, positions=positions, targets=targets, attention=attention[:, None]
    )


def _row_columns(row: Sequence[Block], width: int, pad_id: int) -> list[list[int]]:
    """For each token: id, position, target, block number, answer number (0: the prompt)."""
    cells: list[list[int]] = []
    for number, block in enumerate(row, start=1):
        *shared, last = block.prompt
        cells += [[token, i, NO_TARGET, number, 0] for i, token in enumerate(shared)]
        for which, answer in enumerate(block.answers, start=1):
            inputs = (last, *answer[:-1])
            pairs = enumerate(zip(inputs, answer, strict=True), start=len(shared))
            cells += [[token, i, target, number, which] for i, (token, target) in pairs]
    # Padding is a block of its own: a row of the mask without any allowed token would be NaN.
    return cells + [[pad_id, 0, NO_TARGET, 0, 0]] * (width - len(cells))


def _allowed(
    block_of: Int[Tensor, "rows tokens"], answer_of: Int[Tensor, "rows tokens"]
) -> Bool[Tensor, "rows tokens tokens"]:
    tokens = block_of.shape[1]
    same_block = block_of[:, :, None] == block_of[:, None, :]
    visible = (answer_of[:, None, :] == 0) | (answer_of[:, :, None] == answer_of[:, None, :])
    return same_block & visible & torch.ones(tokens, tokens, dtype=torch.bool).tril()

"""Packed sequences: tokens of documents one behind the other, cut into blocks of one length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from dph._base.randomness import generator
from dph.errors import DataError


@dataclass(frozen=True)
class Blocks:
    """The blocks of one mixture, in a random order that differs from pass to pass.

    A block may hold the end of one document and the beginning of the next, which see each other, as
    is usual in pre-training. The last tokens of a shard that fill no block are left out.

    Args:
        shards: token ids.
        length: tokens of a block.
        seed: of the order.
        name: of the mixture; two mixtures have orders of their own.

    Raises:
        DataError: no shard fills a block.
    """

    shards: Sequence[NDArray[np.uint32]]
    length: int
    seed: int
    name: str

    def __post_init__(self) -> None:
        if not len(self):
            tokens = sum(map(len, self.shards))
            raise DataError(
                f"the {self.name} has {tokens} tokens, too few for one sequence of {self.length}"
            )

    def __len__(self) -> int:
        return sum(len(shard) // self.length for shard in self.shards)

    def order(self, turn: int) -> NDArray[np.int64]:
        """The blocks' order in a pass over them."""
        return generator(self.seed, "blocks", self.name, turn).permutation(len(self))

    def read(self, index: int) -> NDArray[np.int64]:
        """The token ids of a block."""
        for shard in self.shards:
            blocks = len(shard) // self.length
            if index < blocks:
                return shard[index * self.length : (index + 1) * self.length].astype(np.int64)
            index -= blocks
        raise IndexError(index)


class Curriculum(Dataset[dict[str, torch.Tensor]]):
    """Every sequence of a training run in the order it is learnt: one mixture, then the next.

    A mixture that is shorter than its part is passed over again, in another order. Sequence i
    depends on i alone, so a run that goes on reads on where it stopped.

    Args:
        parts: mixtures with how many sequences each gives.
    """

    def __init__(self, parts: Sequence[tuple[Blocks, int]]) -> None:
        self._parts = [(blocks, count) for blocks, count in parts if count]
        self._orders: dict[tuple[int, int], NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return sum(count for _, count in self._parts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """A sequence as a model of transformers takes it; every token is a target."""
        for number, (blocks, count) in enumerate(self._parts):
            if index < count:
                turn, place = divmod(index, len(blocks))
                if (number, turn) not in self._orders:
                    self._orders = {(number, turn): blocks.order(turn)}
                ids = torch.from_numpy(blocks.read(int(self._orders[number, turn][place])))
                return {"input_ids": ids, "labels": ids}
            index -= count
        raise IndexError(index)

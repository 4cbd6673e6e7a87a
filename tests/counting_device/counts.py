"""Kernels and waits, by operation and line of source; how many kernels an operation has."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

# fmt: off
FREE = frozenset(
    {
        "view", "_unsafe_view", "t", "transpose", "permute", "expand", "slice", "select",
        "unsqueeze", "squeeze", "detach", "alias", "split", "split_with_sizes", "unbind",
        "as_strided", "reshape", "_reshape_alias", "empty", "empty_strided", "empty_like",
        "new_empty", "new_empty_strided", "lift", "lift_fresh", "narrow", "is_same_size",
        "sym_size", "set_", "resize_", "diagonal", "_fused_sdp_choice", "record_stream",
        "chunk", "view_as", "is_pinned", "unfold", "unsafe_split",
        "unsafe_split_with_sizes",
    }
)
# fmt: on
"""Operations without a kernel: views and allocations."""

KERNELS = {
    # ReduceOps.cpp: amax, abs, eq, masked_fill, sub, exp, sum, log, add
    "logsumexp": 9,
    # Nonzero.cu: count (two of cub), copy of the count, write (two where there are several axes)
    "nonzero": 4,
    # Sort.cu, TensorTopK.cu: several passes of a radix sort
    "sort": 4,
    "argsort": 4,
    "topk": 3,
    # UniqueCub.cu, SummaryOps.cu, Randperm.cu
    "unique_consecutive": 6,
    "_unique2": 8,
    "bincount": 4,
    "randperm": 3,
    # ScanUtils.cuh: cub's scan is an initialisation and the scan
    "cumsum": 2,
    "masked_scatter": 4,
    "multinomial": 6,
    "equal": 4,
    # Embedding.cu, more than 3,072 tokens: sort, segments, partial sums, sums
    "embedding_dense_backward": 16,
    # flash_api.cpp: the sum of grad * out, the gradient, the conversion of the query's
    "_scaled_dot_product_flash_attention_backward": 3,
    "_scaled_dot_product_efficient_attention_backward": 3,
    # torch's dispatch of them on a CPU
    "_scaled_dot_product_flash_attention_for_cpu": 1,
    "_scaled_dot_product_flash_attention_for_cpu_backward": 3,
}
"""Kernels of an operation, from torch's sources; all others are one."""

SORTING = 8
"""Kernels of ``index_put_`` that accumulates: it sorts (Indexing.cu)."""

# fmt: off
WAITING = frozenset(
    {
        "_local_scalar_dense", "nonzero", "masked_select", "unique_consecutive", "_unique2",
        "unique_dim", "bincount", "equal", "is_nonzero",
    }
)
# fmt: on
"""Operations whose result the host must know before it goes on."""

_CHUNK, _BLOCKS, _TENSORS = 65_536, 320, (110, 64, 48, 36, 30)
"""Of operations on lists of tensors (MultiTensorApply.cuh): elements of a chunk, chunks a launch,
tensors a launch where one to five lists take part."""


def kernels_of(name: str, arguments: Sequence[Any]) -> int:
    """Kernels that the device launches for one operation."""
    if name.startswith(("_foreach", "_fused_adam", "_fused_sgd")):
        return _list_kernels(name, arguments)
    if name in ("index_put_", "_index_put_impl_") and len(arguments) > 3 and arguments[3]:
        return SORTING
    if name in _FLASH:
        return _FLASH[name](arguments)
    if name == "repeat_interleave" and isinstance(arguments[0], Tensor):
        return 3
    return 0 if name in FREE else KERNELS.get(name, 1)


def _flash_forward(arguments: Sequence[Any]) -> int:
    """One; where no segment has two queries, grouped heads are moved to the tokens and back."""
    query, key, longest = arguments[0], arguments[1], arguments[5]
    return 4 if longest == 1 and query.shape[-2] > key.shape[-2] else 1


def _flash_backward(arguments: Sequence[Any]) -> int:
    """Three, sums over grouped heads of two gradients, and copies of what is not contiguous."""
    grad, query, key, out = arguments[0], arguments[1], arguments[2], arguments[4]
    grouped = query.shape[-2] > key.shape[-2]
    return 3 + 2 * grouped + sum(not x.is_contiguous() for x in (grad, out))


_FLASH = {"_flash_attention_forward": _flash_forward, "_flash_attention_backward": _flash_backward}
"""Kernels by flash_api.cpp and attention_backward.cu."""


def _list_kernels(name: str, arguments: Sequence[Any]) -> int:
    lists = [x for x in arguments if isinstance(x, list | tuple) and x and isinstance(x[0], Tensor)]
    depth = len(lists) + (not name.endswith("_"))
    if name.startswith("_fused"):
        depth -= 1  # numbers of steps travel with the addresses
    most = _TENSORS[min(depth, len(_TENSORS)) - 1]
    chunks = sum(-(-x.numel() // _CHUNK) for x in lists[0])
    launches = max(-(-len(lists[0]) // most), -(-chunks // _BLOCKS))
    return launches + (name == "_foreach_norm")  # which sums the chunks' norms up


What = Literal["launched", "waited", "inside"]


@dataclass
class Counts:
    """Counts of a region, by (operation, line of source).

    ``inside`` are the kernels of replayed graphs: each replay counts as one launch, and these
    beside it.
    """

    launched: Counter[tuple[str, str]] = field(default_factory=Counter)
    waited: Counter[tuple[str, str]] = field(default_factory=Counter)
    inside: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def launches(self) -> int:
        return self.launched.total()

    @property
    def waits(self) -> int:
        """Times that the host waited for the device."""
        return self.waited.total()

    @property
    def graph_kernels(self) -> int:
        return self.inside.total()

    def by_operation(self, what: What = "launched") -> Counter[str]:
        return self._by(lambda key: key[0], what)

    def by_place(self, what: What = "launched") -> Counter[str]:
        """Counts of each line, as ``file:line``."""
        return self._by(lambda key: key[1], what)

    def by_file(self, what: What = "launched") -> Counter[str]:
        return self._by(lambda key: key[1].rsplit(":", 1)[0], what)

    def _by(self, name, what: What) -> Counter[str]:
        found: Counter[str] = Counter()
        for key, count in getattr(self, what).items():
            found[name(key)] += count
        return found


PASSED_OVER: set[str] = set()
"""Further files whose lines are not looked for: of functions that count others."""
_HERE, _TORCH = str(Path(__file__).parent), str(Path(torch.__file__).parent)
_OF_TORCH = (f"{_TORCH}/optim/", f"{_TORCH}/nn/utils/")


def place_of_caller() -> str:
    """The innermost line of source that is neither ours nor torch's, as ``file:line``."""
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        ours = path.startswith((_HERE, "<")) or path.endswith("/contextlib.py")
        ours = ours or path in PASSED_OVER
        if not ours and (not path.startswith(_TORCH) or path.startswith(_OF_TORCH)):
            for root in ("/site-packages/", "/src/", "/tests/", "/benchmarks/"):
                path = path.rsplit(root, 1)[-1]
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"

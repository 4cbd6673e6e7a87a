"""torch's operators for CUDA that a CPU lacks, computed plainly, and their demands."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SIXTEEN_BITS = (torch.bfloat16, torch.float16)
_ALIGNMENT = 32
"""The memory-efficient kernel rounds the number of log-sums up to a multiple of it."""


def _in_full(x: Tensor) -> Tensor:
    return x.double()


def _heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values of as many heads as the queries have."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _scores(
    query: Tensor, key: Tensor, scale: float, causal: bool, bias: Tensor | None, *, corner: int
) -> Tensor:
    scores = (_in_full(query) @ _heads(_in_full(key), query.shape[1]).mT) * scale
    if causal:  # a query sees the keys up to its own place plus ``corner``
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool).triu_(1 + corner), -math.inf
        )
    return scores if bias is None else scores + _in_full(bias)


def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None,
    causal: bool,
    bias: Tensor | None = None,
    corner: int = 0,
) -> tuple[Tensor, Tensor]:
    """Attention, [batch heads tokens size], and the log of the softmax's sum, in float64 inside."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = _scores(query, key, scale, causal, bias, corner=corner)
    log_sum = scores.logsumexp(-1)
    weights = (scores - log_sum[..., None]).exp().nan_to_num()
    return (weights @ _heads(_in_full(value), query.shape[1])).to(query.dtype), log_sum


def softmax_attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    log_sum: Tensor,
    *,
    scale: float | None,
    causal: bool,
    bias: Tensor | None = None,
    corner: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, given ``out`` and ``log_sum`` of the whole attention."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = _scores(query, key, scale, causal, bias, corner=corner)
    weights = (scores - _in_full(log_sum)[..., None]).exp().nan_to_num()
    heads, kv_heads, full = query.shape[1], key.shape[1], _in_full(grad)
    through_all = (full * _in_full(out)).sum(-1, keepdim=True)
    moved = weights * (full @ _heads(_in_full(value), heads).mT - through_all) * scale
    of_query = moved @ _heads(_in_full(key), heads)
    of_key, of_value = moved.mT @ _in_full(query), weights.mT @ full
    if kv_heads != heads:
        of_key, of_value = (x.unflatten(1, (kv_heads, -1)).sum(2) for x in (of_key, of_value))
    return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype)


def _of_kernel(log_sum: Tensor, like: Tensor) -> Tensor:
    """Log-sums as the kernels give them: float32, but for exact tests."""
    return log_sum if like.dtype == torch.float64 else log_sum.float()


def _token_major(out: Tensor) -> Tensor:
    """The kernels' layout in memory, [batch tokens heads size]."""
    return out.transpose(1, 2).contiguous().transpose(1, 2)


def _no_state() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


# Packed sequences: `aten._flash_attention_forward` and `_backward` with tables of bounds.


class PackedFlash:
    """FlashAttention of packed sequences, [tokens heads size]; log-sums are [heads tokens].

    ``exact`` lifts the demands on dtype and size of a head, so that a test may compare exactly.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cum_seq_q: Tensor | None,
        cum_seq_k: Tensor | None,
        max_q: int,
        max_k: int,
        dropout_p: float,
        is_causal: bool,
        return_debug_mask: bool,
        *,
        scale: float | None = None,
        window_size_left: int | None = None,
        window_size_right: int | None = None,
        seqused_k: Tensor | None = None,
        alibi_slopes: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Values, log-sums (inf where a query sees nothing), state, nothing, nothing."""
        options = (window_size_left, window_size_right, alibi_slopes, *others.values())
        if any(x is not None for x in options) or dropout_p or return_debug_mask:
            raise NotImplementedError("windows, dropout and the like of FlashAttention")
        self._check(query, key, value, cum_seq_q, cum_seq_k)
        out = torch.zeros(query.shape, dtype=query.dtype)
        log_sum = _of_kernel(query.new_full((query.shape[1], len(query)), math.inf).double(), query)
        for q, k in _segments(cum_seq_q, cum_seq_k, max_q, max_k, seqused_k):
            found, its_sum = softmax_attention(
                *(_batched(x[s]) for x, s in ((query, q), (key, k), (value, k))),
                scale=scale,
                causal=is_causal,
                corner=_length(k) - _length(q),
            )
            out[q] = found[0].transpose(0, 1)
            # A query before the first key, of more queries than keys, sees nothing.
            log_sum[:, q] = its_sum[0].to(log_sum.dtype).nan_to_num(neginf=math.inf)
        return out, log_sum, torch.zeros(2, dtype=torch.int64), _no_state(), torch.empty(0)

    def backward(
        self,
        grad_out: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        logsumexp: Tensor,
        cum_seq_q: Tensor,
        cum_seq_k: Tensor,
        max_q: int,
        max_k: int,
        dropout_p: float,
        is_causal: bool,
        rng_state: Tensor,
        unused: Tensor,
        *,
        scale: float | None = None,
        window_size_left: int | None = None,
        window_size_right: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of query, key and value; 0 where a key has no query."""
        del rng_state, unused, window_size_left, window_size_right
        if dropout_p:
            raise NotImplementedError("dropout of FlashAttention")
        self._check(query, key, value, cum_seq_q, cum_seq_k)
        _demand(grad_out.dtype == query.dtype, "the gradient in the dtype of the query")
        _demand(logsumexp.shape == (query.shape[1], len(query)), "log-sums [heads, tokens]")
        _demand(logsumexp.is_contiguous(), "contiguous log-sums")
        grads = tuple(torch.zeros(x.shape, dtype=x.dtype) for x in (query, key, value))
        for q, k in _segments(cum_seq_q, cum_seq_k, max_q, max_k, None):
            sides = ((grad_out, q), (query, q), (key, k), (value, k), (out, q))
            found = softmax_attention_backward(
                *(_batched(x[s]) for x, s in sides),
                logsumexp[:, q][None],
                scale=scale,
                causal=is_causal,
                corner=_length(k) - _length(q),
            )
            for whole, part, where in zip(grads, found, (q, k, k), strict=True):
                whole[where] = part[0].transpose(0, 1)
        return grads

    def _check(self, query: Tensor, key: Tensor, value: Tensor, *tables: Tensor | None) -> None:
        for table in tables:
            _demand(table is not None and table.dtype == torch.int32, "tables in int32")
            _demand(table.is_contiguous(), "contiguous tables")
        _demand(query.dtype == key.dtype == value.dtype, "one dtype of query, key and value")
        _demand(
            all(x.stride(-1) == 1 for x in (query, key, value)), "the last dimension contiguous"
        )
        _demand(query.shape[1] % key.shape[1] == 0, "a multiple of the key's heads")
        if not self.exact:
            _demand(query.dtype in SIXTEEN_BITS, f"16 bits, not {query.dtype}")
            size = query.shape[-1]
            _demand(
                size % 8 == 0 and size <= 256, f"heads of a multiple of 8 up to 256, not {size}"
            )


def _demand(fulfilled: bool, what: str) -> None:
    if not fulfilled:
        raise RuntimeError(f"FlashAttention expects {what}")


def _segments(
    of_queries: Tensor, of_keys: Tensor, max_q: int, max_k: int, used: Tensor | None
) -> Iterator[tuple[slice, slice]]:
    """Where queries and keys of each segment lie, but for segments without either."""
    q, k = of_queries.tolist(), of_keys.tolist()
    _demand(len(q) == len(k), "as many segments of queries as of keys")
    _demand(used is None or used.dtype == torch.int32, "numbers of used keys in int32")
    for i in range(len(q) - 1):
        keys = k[i + 1] - k[i] if used is None else int(used[i])
        _demand(q[i + 1] - q[i] <= max_q and keys <= max_k, "the longest segment's length")
        _demand(used is None or keys <= k[i + 1] - k[i], "no more used keys than there are")
        if keys and q[i + 1] > q[i]:
            yield slice(q[i], q[i + 1]), slice(k[i], k[i] + keys)


def _batched(x: Tensor) -> Tensor:
    return x.transpose(0, 1)[None]


def _length(span: slice) -> int:
    return span.stop - span.start


# Batches of sequences: the operators behind `scaled_dot_product_attention`.


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    del dropout_p, return_debug_mask
    out, log_sum = softmax_attention(query, key, value, scale=scale, causal=is_causal)
    longest = query.shape[2], key.shape[2]
    state = torch.zeros(2, dtype=torch.int64)
    log_sum = _of_kernel(log_sum, query)
    return _token_major(out), log_sum, None, None, *longest, state, _no_state(), torch.empty(0)


def _flash_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    log_sum: Tensor,
    cum_q: Tensor | None,
    cum_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    seed: Tensor,
    offset: Tensor,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    del cum_q, cum_k, max_q, max_k, dropout_p, seed, offset
    return softmax_attention_backward(
        grad, query, key, value, out, log_sum, scale=scale, causal=is_causal
    )


def _efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    del compute_log_sumexp, dropout_p
    out, log_sum = softmax_attention(
        query, key, value, scale=scale, causal=is_causal, bias=attn_bias
    )
    rest = -log_sum.shape[-1] % _ALIGNMENT
    log_sum = functional.pad(_of_kernel(log_sum, query), (0, rest), value=math.inf)
    return _token_major(out), log_sum, _no_state(), _no_state()


def _efficient_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    log_sum: Tensor,
    seed: Tensor,
    offset: Tensor,
    dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    del seed, offset, dropout_p, grad_input_mask
    known = log_sum[..., : query.shape[2]]
    grads = softmax_attention_backward(
        grad, query, key, value, out, known, scale=scale, causal=is_causal, bias=attn_bias
    )
    return (*grads, None)


def _product(
    left: Tensor, right: Tensor, out_dtype: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """A matrix product, of 16 bits into float32 where it is asked for."""
    if out_dtype is None:
        return torch.mm(left, right) if out is None else torch.mm(left, right, out=out)
    assert (left.dtype.itemsize, right.dtype, out_dtype) == (2, left.dtype, torch.float32)
    wide = torch.mm(left.float(), right.float())
    assert out is None or out.dtype is out_dtype
    return wide if out is None else out.copy_(wide)


def emulated(*, exact: bool) -> dict[str, Callable[..., Any]]:
    """The operators that a CPU does not have, by name."""
    packed = PackedFlash(exact=exact)
    return {
        "_flash_attention_forward": packed.forward,
        "_flash_attention_backward": packed.backward,
        "_scaled_dot_product_flash_attention": _flash,
        "_scaled_dot_product_flash_attention_backward": _flash_backward,
        "_scaled_dot_product_efficient_attention": _efficient,
        "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
        "mm": _product,
    }

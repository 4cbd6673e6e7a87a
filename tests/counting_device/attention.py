"""torch's operators for CUDA that a CPU lacks, computed plainly, and their demands."""

import math

import torch
from torch.nn import functional

SIXTEEN_BITS = (torch.bfloat16, torch.float16)
_ALIGNMENT = 32
"""The memory-efficient kernel rounds the number of log-sums up to a multiple of it."""


def _heads(x, heads):
    """Keys or values of as many heads as the queries have."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _scores(query, key, scale, causal, bias, corner):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query.double() @ _heads(key.double(), query.shape[1]).mT) * scale
    if causal:  # a query sees the keys up to its own place plus ``corner``
        unseen = torch.ones(scores.shape[-2:], dtype=torch.bool).triu_(1 + corner)
        scores = scores.masked_fill(unseen, -math.inf)
    return (scores if bias is None else scores + bias.double()), scale


def softmax_attention(query, key, value, *, scale, causal, bias=None, corner=0):
    """Attention, [batch heads tokens size], and the log of the softmax's sum, in float64 inside."""
    scores, _ = _scores(query, key, scale, causal, bias, corner)
    log_sum = scores.logsumexp(-1)
    weights = (scores - log_sum[..., None]).exp().nan_to_num()
    return (weights @ _heads(value.double(), query.shape[1])).to(query.dtype), log_sum


def softmax_attention_backward(
    grad, query, key, value, out, log_sum, *, scale, causal, bias=None, corner=0
):
    """Gradients of query, key and value, given ``out`` and ``log_sum`` of the whole attention."""
    scores, scale = _scores(query, key, scale, causal, bias, corner)
    weights = (scores - log_sum.double()[..., None]).exp().nan_to_num()
    heads, kv_heads, full = query.shape[1], key.shape[1], grad.double()
    through_all = (full * out.double()).sum(-1, keepdim=True)
    moved = weights * (full @ _heads(value.double(), heads).mT - through_all) * scale
    of_query = moved @ _heads(key.double(), heads)
    of_key, of_value = moved.mT @ query.double(), weights.mT @ full
    if kv_heads != heads:
        of_key, of_value = (x.unflatten(1, (kv_heads, -1)).sum(2) for x in (of_key, of_value))
    return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype)


def _of_kernel(log_sum, like):
    """Log-sums as the kernels give them: float32, but for exact tests."""
    return log_sum if like.dtype == torch.float64 else log_sum.float()


def _token_major(out):
    """The kernels' layout in memory, [batch tokens heads size]."""
    return out.transpose(1, 2).contiguous().transpose(1, 2)


def _no_state():
    return torch.zeros((), dtype=torch.int64)


class PackedFlash:
    """`aten._flash_attention_forward` and `_backward` of packed sequences, [tokens heads size].

    Log-sums are [heads tokens]. ``exact`` lifts the demands on dtype and size of a head, so that a
    test may compare exactly.
    """

    def __init__(self, *, exact=False):
        self.exact = exact

    def forward(
        self, query, key, value, of_queries, of_keys, *numbers, scale=None, seqused_k=None, **others
    ):
        """Values, log-sums (inf where a query sees nothing), state, nothing, nothing."""
        max_q, max_k, dropout, causal, debug_mask = numbers
        if any(x is not None for x in others.values()) or dropout or debug_mask:
            raise NotImplementedError("windows, dropout and the like of FlashAttention")
        self._check(query, key, value, of_queries, of_keys)
        out = torch.zeros(query.shape, dtype=query.dtype)
        log_sum = _of_kernel(query.new_full((query.shape[1], len(query)), math.inf).double(), query)
        for q, k in _segments(of_queries, of_keys, max_q, max_k, seqused_k):
            found, its_sum = softmax_attention(
                *(_batched(x[s]) for x, s in ((query, q), (key, k), (value, k))),
                scale=scale,
                causal=causal,
                corner=_length(k) - _length(q),
            )
            out[q] = found[0].transpose(0, 1)
            # A query before the first key, of more queries than keys, sees nothing.
            log_sum[:, q] = its_sum[0].to(log_sum.dtype).nan_to_num(neginf=math.inf)
        return out, log_sum, torch.zeros(2, dtype=torch.int64), _no_state(), torch.empty(0)

    def backward(self, grad, query, key, value, out, log_sums, *tables, scale=None, **_others):
        """Gradients of query, key and value; 0 where a key has no query."""
        of_queries, of_keys, max_q, max_k, dropout, causal = tables[:6]
        if dropout:
            raise NotImplementedError("dropout of FlashAttention")
        self._check(query, key, value, of_queries, of_keys)
        _demand(grad.dtype == query.dtype, "the gradient in the dtype of the query")
        _demand(log_sums.shape == (query.shape[1], len(query)), "log-sums [heads, tokens]")
        _demand(log_sums.is_contiguous(), "contiguous log-sums")
        grads = tuple(torch.zeros(x.shape, dtype=x.dtype) for x in (query, key, value))
        for q, k in _segments(of_queries, of_keys, max_q, max_k, None):
            sides = ((grad, q), (query, q), (key, k), (value, k), (out, q))
            found = softmax_attention_backward(
                *(_batched(x[s]) for x, s in sides),
                log_sums[:, q][None],
                scale=scale,
                causal=causal,
                corner=_length(k) - _length(q),
            )
            for whole, part, where in zip(grads, found, (q, k, k), strict=True):
                whole[where] = part[0].transpose(0, 1)
        return grads

    def _check(self, query, key, value, *tables):
        for table in tables:
            _demand(table is not None and table.dtype == torch.int32, "tables in int32")
            _demand(table.is_contiguous(), "contiguous tables")
        _demand(query.dtype == key.dtype == value.dtype, "one dtype of query, key and value")
        _demand(all(x.stride(-1) == 1 for x in (query, key, value)), "contiguous heads")
        _demand(query.shape[1] % key.shape[1] == 0, "a multiple of the key's heads")
        if not self.exact:
            size = query.shape[-1]
            _demand(query.dtype in SIXTEEN_BITS, f"16 bits, not {query.dtype}")
            _demand(size % 8 == 0 and size <= 256, f"heads of 8, 16 ... 256, not {size}")


def _demand(fulfilled, what):
    if not fulfilled:
        raise RuntimeError(f"FlashAttention expects {what}")


def _segments(of_queries, of_keys, max_q, max_k, used):
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


def _batched(x):
    return x.transpose(0, 1)[None]


def _length(span):
    return span.stop - span.start


# Batches of sequences: the operators behind `scaled_dot_product_attention`.


def _flash(query, key, value, _dropout=0.0, is_causal=False, _debug_mask=False, *, scale=None):
    out, log_sum = softmax_attention(query, key, value, scale=scale, causal=is_causal)
    longest, state = (query.shape[2], key.shape[2]), torch.zeros(2, dtype=torch.int64)
    log_sum = _of_kernel(log_sum, query)
    return _token_major(out), log_sum, None, None, *longest, state, _no_state(), torch.empty(0)


def _flash_backward(grad, query, key, value, out, log_sum, *numbers, scale=None):
    causal = numbers[5]
    return softmax_attention_backward(
        grad, query, key, value, out, log_sum, scale=scale, causal=causal
    )


def _efficient(query, key, value, bias, _log_sums, _dropout=0.0, is_causal=False, *, scale=None):
    out, log_sum = softmax_attention(query, key, value, scale=scale, causal=is_causal, bias=bias)
    rest = -log_sum.shape[-1] % _ALIGNMENT
    log_sum = functional.pad(_of_kernel(log_sum, query), (0, rest), value=math.inf)
    return _token_major(out), log_sum, _no_state(), _no_state()


def _efficient_backward(grad, query, key, value, bias, out, log_sum, *numbers, scale=None):
    causal = len(numbers) > 4 and numbers[4]
    known = log_sum[..., : query.shape[2]]
    grads = softmax_attention_backward(
        grad, query, key, value, out, known, scale=scale, causal=causal, bias=bias
    )
    return (*grads, None)


def _product(left, right, out_dtype=None, *, out=None):
    """A matrix product, of 16 bits into float32 where it is asked for."""
    if out_dtype is None:
        return torch.mm(left, right) if out is None else torch.mm(left, right, out=out)
    assert (left.dtype.itemsize, right.dtype, out_dtype) == (2, left.dtype, torch.float32)
    wide = torch.mm(left.float(), right.float())
    assert out is None or out.dtype is out_dtype
    return wide if out is None else out.copy_(wide)


def emulated(*, exact):
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

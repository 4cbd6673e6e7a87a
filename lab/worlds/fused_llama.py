"""A small Llama for training only: the same function as transformers', in about half the time.

Queries, keys and values are one matrix product, gates and inner values another; rotations are
complex products; beginnings that several prompts share are computed once, and their keys and
values read by all. The gains of the norms in front of the matrices stay 1: the matrices behind them
can express them.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from torch.nn.functional import embedding, linear
from transformers import LlamaConfig, LlamaForCausalLM

from dph.errors import ModelError
from lab.worlds.lessons import Floats, Ints, Lesson
from lab.worlds.small_model import Muon, Rates

# Lessons as tensors: stems stand once, a row is a prompt with an answer by each who answers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some prompts with answers behind stems that they share; everything padded.

    A row is a prompt without its stem and all its answers; answers do not see each other.
    """

    stem_ids: Int[Tensor, "stems stem_tokens"]
    ids: Int[Tensor, "rows tokens"]
    stem_of: Int[Tensor, " rows"]
    positions: Int[Tensor, "rows tokens"]
    """Counted from the beginning of the stem."""
    stem_attention: Float[Tensor, "stem_tokens stem_tokens"]
    """0 where a token of a stem may look, -inf where not."""
    attention: Float[Tensor, "rows 1 tokens keys"]
    """Keys are those of the row's stem, then its own; -inf where a token may not look."""
    where: Int[Tensor, " targets"]
    """Tokens, counted row after row, after which something is to be predicted."""
    target_rows: Int[Tensor, " chances"]
    target_ids: Int[Tensor, " chances"]
    target_chances: Float[Tensor, " chances"]
    """Probability of token ``target_ids`` at target ``target_rows``."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A lesson with drawn answers: arrays over its tokens, and over what they predict."""

    ids: Ints
    positions: Ints
    answer: Ints
    """0 for the prompt, then the number of the answer."""
    where: Ints
    """Tokens after which something is to be predicted."""
    likely_ids: Ints
    """[targets, options]"""
    likely: Floats


def lesson_batch(lessons: Sequence[Lesson], rng: np.random.Generator, *, pad_id: int) -> Batch:
    """Draw answers to some lessons and lay them out."""
    stems = list(dict.fromkeys(lesson.stem for lesson in lessons))
    rows = [_drawn(lesson, rng) for lesson in lessons]
    stem_of = np.array([stems.index(lesson.stem) for lesson in lessons])
    longest, tokens = max(map(len, stems)), max(len(row.ids) for row in rows)
    stem_ids = np.full((len(stems), longest), pad_id)
    for line, stem in zip(stem_ids, stems, strict=True):
        line[: len(stem)] = stem
    ids, positions = np.full((len(rows), tokens), pad_id), np.zeros((len(rows), tokens), np.int64)
    answer = np.full((len(rows), tokens), -1)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        positions[i, : len(row.ids)] = row.positions
        answer[i, : len(row.ids)] = row.answer
    stem_lengths = np.array([len(stem) for stem in stems])[stem_of]
    rows_of, ids_of, chances = _targets(rows)
    return Batch(
        stem_ids=torch.from_numpy(stem_ids),
        ids=torch.from_numpy(ids),
        stem_of=torch.from_numpy(stem_of),
        positions=torch.from_numpy(positions),
        stem_attention=torch.full((longest, longest), float("-inf")).triu(1),
        attention=_attention_of_rows(
            torch.from_numpy(answer), torch.from_numpy(stem_lengths), longest
        ),
        where=torch.from_numpy(np.concatenate([r.where + i * tokens for i, r in enumerate(rows)])),
        target_rows=torch.from_numpy(rows_of),
        target_ids=torch.from_numpy(ids_of),
        target_chances=torch.from_numpy(chances).float(),
    )


def _drawn(lesson: Lesson, rng: np.random.Generator) -> _Row:
    """The prompt, then the answers without their ends; what follows the prompt is any beginning."""
    answers = lesson.answers
    tokens, likely = answers.draw(rng.random(len(answers.chances)))
    begins = np.flatnonzero(np.diff(answers.answer, prepend=0))
    ends = np.flatnonzero(np.diff(answers.answer, append=0))
    read, said = np.delete(np.arange(len(tokens)), ends), np.delete(np.arange(len(tokens)), begins)
    prompt = len(lesson.prompt)
    within = np.arange(len(tokens)) - begins[answers.answer - 1]
    width = max(len(begins), likely.shape[1])
    likely_ids = np.zeros((1 + len(said), width), dtype=np.int64)
    chances = np.zeros((1 + len(said), width))
    likely_ids[0, : len(begins)], chances[0, : len(begins)] = tokens[begins], 1 / len(begins)
    likely_ids[1:, : likely.shape[1]] = answers.options[said]
    chances[1:, : likely.shape[1]] = likely[said]
    return _Row(
        ids=np.concatenate([lesson.prompt, tokens[read]]),
        positions=len(lesson.stem) + np.concatenate([np.arange(prompt), prompt + within[read]]),
        answer=np.concatenate([np.zeros(prompt, np.int64), answers.answer[read]]),
        where=np.concatenate([[prompt - 1], prompt + np.arange(len(read))]),
        likely_ids=likely_ids,
        likely=chances,
    )


def _targets(rows: Sequence[_Row]) -> tuple[Ints, Ints, Floats]:
    """Row, token and chance of everything that may come at a target of all rows."""
    found, before = [], 0
    for row in rows:
        target, option = np.nonzero(row.likely)
        found.append((target + before, row.likely_ids[target, option], row.likely[target, option]))
        before += len(row.likely)
    rows_of, ids_of, chances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows_of, ids_of, chances


def _attention_of_rows(
    answer: Int[Tensor, "rows tokens"], stem_lengths: Int[Tensor, " rows"], longest: int
) -> Float[Tensor, "rows 1 tokens keys"]:
    rows, tokens = answer.shape
    keys, queries = answer[:, None, :], answer[:, :, None]
    own = ((keys == 0) | (keys == queries)) & torch.ones(tokens, tokens, dtype=torch.bool).tril()
    stem = torch.arange(longest) < stem_lengths[:, None]  # padding looks there, too
    allowed = torch.cat([stem[:, None].expand(rows, tokens, longest), own], dim=2)
    mask = torch.zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
    return mask[:, None]


class FusedLlama:
    """Weights of a small Llama in fused form; reads and writes the usual form."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        config = model.config
        _require_supported(config)
        self.heads, self.eps = int(config.num_attention_heads), float(config.rms_norm_eps)
        self.layers = int(config.num_hidden_layers)
        self.width = int(config.hidden_size)
        self.embedding = _leaf(model.model.embed_tokens.weight)
        self.gain = _leaf(model.model.norm.weight)
        self.qkv: list[Tensor] = []
        self.out: list[Tensor] = []
        self.gate_up: list[Tensor] = []
        self.down: list[Tensor] = []
        for layer in model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            q, k = (self._interleaved(p.weight) for p in (attention.q_proj, attention.k_proj))
            self.qkv.append(_leaf(torch.stack([q, k, attention.v_proj.weight])))
            self.out.append(_leaf(attention.o_proj.weight))
            self.gate_up.append(_leaf(torch.stack([mlp.gate_proj.weight, mlp.up_proj.weight])))
            self.down.append(_leaf(mlp.down_proj.weight))
        self._turns = _turns(config, self.width // self.heads)

    @property
    def matrices(self) -> list[Tensor]:
        """All weight matrices, some of them in stacks of one shape."""
        return [*self.qkv, *self.out, *self.gate_up, *self.down]

    @property
    def others(self) -> list[Tensor]:
        """The weights that are not matrices between activations."""
        return [self.embedding, self.gain]

    @property
    def weights(self) -> list[Tensor]:
        """All weights."""
        return [*self.matrices, *self.others]

    @torch.no_grad()
    def write_into(self, model: LlamaForCausalLM) -> None:
        """Put the weights where transformers has them."""
        model.model.embed_tokens.weight.copy_(self.embedding)
        model.model.norm.weight.copy_(self.gain)
        for index, layer in enumerate(model.model.layers):
            q, k, v = self.qkv[index]
            layer.self_attn.q_proj.weight.copy_(self._halved(q))
            layer.self_attn.k_proj.weight.copy_(self._halved(k))
            layer.self_attn.v_proj.weight.copy_(v)
            layer.self_attn.o_proj.weight.copy_(self.out[index])
            layer.mlp.gate_proj.weight.copy_(self.gate_up[index][0])
            layer.mlp.up_proj.weight.copy_(self.gate_up[index][1])
            layer.mlp.down_proj.weight.copy_(self.down[index])

    def _interleaved(self, weight: Tensor) -> Tensor:
        """Rows of each head so that the two of a rotation lie side by side."""
        return weight.view(self.heads, 2, -1, self.width).transpose(1, 2).reshape_as(weight)

    def _halved(self, weight: Tensor) -> Tensor:
        return weight.view(self.heads, -1, 2, self.width).transpose(1, 2).reshape_as(weight)

    def logits(self, batch: Batch) -> Float[Tensor, "targets vocabulary"]:
        """Logits after every token of ``batch.where``."""
        stems = batch.stem_ids.shape
        ids = torch.cat([batch.stem_ids.flatten(), batch.ids.flatten()])
        stem_positions = torch.arange(stems[1]).repeat(stems[0])
        turns = self._turns[torch.cat([stem_positions, batch.positions.flatten()])][:, None, None]
        x = embedding(ids, self.embedding)
        for index in range(self.layers):
            normed = _unit(x, self.eps)
            qkv = linear(normed, self.qkv[index].flatten(0, 1)).view(len(ids), 3, self.heads, -1)
            qk, v = torch.split(qkv, [2, 1], dim=1)
            attended = self._attend(_rotated(qk, turns), v, batch)
            x = torch.addmm(x, attended, self.out[index].T)
            inner = linear(_unit(x, self.eps), self.gate_up[index].flatten(0, 1))
            x = torch.addmm(x, _swish_gate(inner), self.down[index].T)
        chosen = x.index_select(0, stems.numel() + batch.where)
        return linear(_unit(chosen, self.eps), self.embedding * self.gain)

    def _attend(
        self, qk: Float[Tensor, "n 2 heads size"], v: Float[Tensor, "n 1 heads size"], batch: Batch
    ) -> Float[Tensor, "n width"]:
        """Stems see themselves up to each token; rows see their stem and what the mask allows."""
        cut = [batch.stem_ids.numel(), batch.ids.numel()]
        (stem_qk, own_qk), (stem_v, own_v) = torch.split(qk, cut), torch.split(v, cut)
        stem_q, stem_k = _by_head(stem_qk, batch.stem_ids.shape)
        (stem_v,) = _by_head(stem_v, batch.stem_ids.shape)
        q, k = _by_head(own_qk, batch.ids.shape)
        (v,) = _by_head(own_v, batch.ids.shape)
        k = torch.cat([stem_k.index_select(0, batch.stem_of), k], dim=2)
        v = torch.cat([stem_v.index_select(0, batch.stem_of), v], dim=2)
        of_stems = _attention(stem_q, stem_k, stem_v, batch.stem_attention)
        of_rows = _attention(q, k, v, batch.attention)
        return torch.cat([x.transpose(1, 2).reshape(-1, self.width) for x in (of_stems, of_rows)])


def imitation_gradients(llama: FusedLlama, batch: Batch, targets: int) -> tuple[Tensor, ...]:
    """The gradient of the mean cross-entropy (nats a target) at ``llama.weights``.

    ``targets`` is the number that the mean is over: that of a whole step, of which this batch is
    a part.
    """
    logits = llama.logits(batch)
    with torch.no_grad():
        slope = torch.softmax(logits, dim=-1)
        slope.index_put_(
            (batch.target_rows, batch.target_ids), -batch.target_chances, accumulate=True
        )
        slope /= targets
    return torch.autograd.grad(logits, llama.weights, slope)


def _leaf(weight: Tensor) -> Tensor:
    return weight.detach().clone().requires_grad_(True)


def _turns(config: LlamaConfig, size: int) -> Complex[Tensor, "positions half"]:
    """exp(i * position * frequency) of rotary position embeddings (Su et al., 2021)."""
    base = float(config.rope_parameters["rope_theta"])
    frequencies = base ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(config.max_position_embeddings)[:, None] * frequencies
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def _by_head(
    x: Float[Tensor, "n kinds heads size"], shape: tuple[int, ...]
) -> tuple[Float[Tensor, "rows heads tokens size"], ...]:
    return x.view(*shape, *x.shape[1:]).permute(2, 0, 3, 1, 4).unbind()


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax(q k / sqrt(size) + mask) v; for rows this short faster than torch's own."""
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    return torch.softmax(scores + mask, dim=-1) @ v


def _rotated(qk: Tensor, turns: Tensor) -> Tensor:
    pairs = torch.view_as_complex(qk.view(*qk.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


class _Unit(torch.autograd.Function):
    """x over the root of its mean square, in four passes instead of the ten of autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        scale: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = scale.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        y: Tensor = x * scale
        ctx.save_for_backward(y, scale)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        y, scale = ctx.saved_tensors
        along = (gradient * y).sum(-1, keepdim=True).div_(-y.shape[-1])
        slope: Tensor = torch.addcmul(gradient, y, along).mul_(scale)
        return slope, None


class _SwishGate(torch.autograd.Function):
    """silu(gate) * up of rows that hold the gate and then up."""

    @staticmethod
    def forward(ctx: Any, inner: Tensor) -> Tensor:
        gate, up = inner.chunk(2, dim=-1)
        ctx.save_for_backward(inner)
        gated: Tensor = torch.nn.functional.silu(gate).mul_(up)
        return gated

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (inner,) = ctx.saved_tensors
        gate, up = inner.chunk(2, dim=-1)
        result = torch.empty_like(inner)
        of_gate, of_up = result.chunk(2, dim=-1)
        torch.mul(torch.nn.functional.silu(gate), gradient, out=of_up)
        torch.ops.aten.silu_backward.grad_input(gradient * up, gate, grad_input=of_gate)
        return result


def _unit(x: Tensor, eps: float) -> Tensor:
    result: Tensor = _Unit.apply(x, eps)  # type: ignore[no-untyped-call]
    return result


def _swish_gate(inner: Tensor) -> Tensor:
    result: Tensor = _SwishGate.apply(inner)  # type: ignore[no-untyped-call]
    return result


def _require_supported(config: LlamaConfig) -> None:
    """Refuse what the fused form does not have."""
    wrong = {
        "num_key_value_heads": config.num_key_value_heads != config.num_attention_heads,
        "tie_word_embeddings": not config.tie_word_embeddings,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.mlp_bias,
    }
    if found := [name for name, is_wrong in wrong.items() if is_wrong]:
        raise ModelError(f"small Llamas of worlds are trained without these: {', '.join(found)}")


# Training a small Llama to imitate: lessons in, weights out.

LESSONS_AT_ONCE = 9
"""Rows of a batch: few enough for the CPU's caches."""
LONGEST_BESIDE = 1.6
"""A row is at most so many times as long as the shortest of its batch: less padding."""
MOST_THREADS = 4
"""Batches that are computed side by side where there are cores; it decides nothing but time."""
EMBEDDINGS, GAIN = 10.0, 0.5
"""Factors on the first embeddings and on the gain behind the last layer.

With tied embeddings as small as they are usually drawn, the first steps push all rare tokens the
same way, by more than what they differ in, and they are hard to tell apart from then on: after 600
steps the copying of rare values was not learnt (12 nats a question; 0.01 with these factors).
"""


def imitate(
    model: LlamaForCausalLM,
    steps: Iterator[Sequence[Lesson]],
    *,
    count: int,
    rng: np.random.Generator,
    rates: Rates | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Train a new model: lower the mean cross-entropy of all that a step's lessons predict."""
    rates = rates or Rates()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(EMBEDDINGS)
        model.model.norm.weight.mul_(GAIN)
    llama = FusedLlama(model)
    muon = Muon(llama.matrices, learning_rate=rates.matrices)
    adam = torch.optim.AdamW(llama.others, lr=rates.others, betas=(0.9, 0.95), weight_decay=0.0)
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as threads:
        for step, lessons in enumerate(steps):
            scale = rates.scale(step, count)
            for group in adam.param_groups:
                group["lr"] = rates.others * scale
            batches = batches_of(lessons, rng, pad_id=model.config.pad_token_id)
            _set_gradients(llama, batches, threads)
            muon.step(scale)
            adam.step()
            if on_progress is not None:
                on_progress(1)
    llama.write_into(model)
    model.eval()


def _set_gradients(llama: FusedLlama, batches: Sequence[Batch], threads: Executor) -> None:
    """Batches side by side; their gradients are added in their order, whoever is ready first."""
    targets = sum(len(batch.where) for batch in batches)
    for weight in llama.weights:
        weight.grad = None
    for found in threads.map(lambda batch: imitation_gradients(llama, batch, targets), batches):
        for weight, gradient in zip(llama.weights, found, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)


def batches_of(lessons: Sequence[Lesson], rng: np.random.Generator, *, pad_id: int) -> list[Batch]:
    """Lessons of similar length together."""
    pieces: list[list[Lesson]] = []
    for lesson in sorted(lessons, key=len):
        piece = pieces[-1] if pieces else []
        if piece and len(piece) < LESSONS_AT_ONCE and len(lesson) <= LONGEST_BESIDE * len(piece[0]):
            piece.append(lesson)
        else:
            pieces.append([lesson])
    return [lesson_batch(piece, rng, pad_id=pad_id) for piece in pieces]

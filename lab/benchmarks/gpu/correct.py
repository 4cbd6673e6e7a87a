"""Sampler, training forward and attention against float64 on the CPU."""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.model.forward import logprobs
from dph.model.forward.kernels import Segments, flash, flash_backward
from dph.model.loading import autocast
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from lab.benchmarks.gpu.check import Check
from lab.benchmarks.speed.runs import Row
from lab.benchmarks.speed.shapes import ModelSize, Shape
from lab.benchmarks.speed.world import PAD, World, build_model, build_tokenizer

LIMIT = 3e-2
"""Relative errors up to it are those of 16 bits."""


class Rows(NamedTuple):
    """Prompts and completions, row by row."""

    prompts: Sequence[tuple[int, ...]]
    completions: Sequence[tuple[int, ...]]


class Exact(NamedTuple):
    """The model in float64, its log-probs of some rows, and the gradient of a weighted sum."""

    model: PreTrainedModel
    logprobs: Tensor
    weights: Tensor
    gradient: Tensor


def correct(check: Check) -> None:
    """A row for everything that is compared: the error, its limit, and whether it passed."""
    hidden, intermediate = (64, 96) if check.tiny else (256, 512)
    size = ModelSize(
        vocabulary=2048, hidden=hidden, layers=3, heads=4, intermediate=intermediate,
        kv_heads=2, family="qwen2",
    )  # fmt: skip
    world = World(size=size, shape=Shape(prompt=70, completion=40, prompts=3, samples=6))
    plain = build_model(world)
    with torch.no_grad():
        for parameter in plain.parameters():  # larger than at the start of a training: sharper
            parameter.mul_(2.0 if parameter.dim() > 1 else 1.0)
    rows = some_rows(size.vocabulary)
    exact = exact_of(plain, rows)
    model = copy.deepcopy(plain).to(check.device)
    for name, sharing, wide in (
        ("packed", "always", False),
        ("packed, wide head", "always", True),
        ("padded", "never", False),
        ("padded, wide head", "never", True),
    ):
        row = check.row("gpu_correct", f"training forward, {name}")
        with check.guarded(row, name):
            check.require()
            error = _training(model, rows, exact, sharing=sharing, wide=wide)
            _judge(check, row, **error)
    _sampler(check, model, exact.model, rows, world)
    _attention(check)


def _judge(check: Check, row: Row, *, limit: float = LIMIT, **errors: float) -> None:
    passed = all(error <= limit for error in errors.values())  # NaN is not
    check.note(row, **errors, limit=limit, passed=passed)


def some_rows(vocabulary: int) -> Rows:
    """Rows of three prompts, two of which begin alike, of different lengths."""
    drawn = random.Random(0)

    def words(count: int) -> tuple[int, ...]:
        return tuple(drawn.randrange(2, vocabulary) for _ in range(count))

    schema = words(40)
    prompts = [(*schema, *words(30)), (*schema, *words(17)), words(25)]
    of = [prompt for prompt in prompts for _ in range(6)]
    return Rows(of, [words(drawn.randint(1, 40)) for _ in of])


def exact_logprobs(model: PreTrainedModel, prompt: Sequence[int], answer: Sequence[int]) -> Tensor:
    """The whole table of log-probs at the places of an answer, of a row alone."""
    logits = model(input_ids=torch.tensor([[*prompt, *answer]])).logits
    return torch.log_softmax(logits[0, len(prompt) - 1 : -1], dim=-1)


def chosen(table: Tensor, answer: Sequence[int]) -> Tensor:
    """Those of the answer's tokens."""
    return table.gather(1, torch.tensor(answer)[:, None])[:, 0]


def exact_of(plain: PreTrainedModel, rows: Rows) -> Exact:
    """Everything to compare with, row by row without sharing."""
    model = copy.deepcopy(plain).double().eval()
    pairs = zip(*rows, strict=True)
    wanted = torch.cat([chosen(exact_logprobs(model, p, c), c) for p, c in pairs])
    weights = torch.randn(len(wanted), dtype=torch.float64, generator=_seeded())
    torch.autograd.backward((wanted * weights).sum())
    return Exact(model, wanted.detach(), weights, _gradient(model))


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _gradient(model: PreTrainedModel) -> Tensor:
    parts = [p.grad.detach().cpu().double().flatten() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return torch.cat(parts)


def relative(found: Tensor, wanted: Tensor) -> float:
    """|found - wanted| / |wanted|."""
    found, wanted = found.detach().cpu().double(), wanted.detach().cpu().double()
    return float((found - wanted).norm() / wanted.norm())


def _training(
    model: PreTrainedModel, rows: Rows, exact: Exact, *, sharing: Any, wide: bool
) -> dict[str, float]:
    at_once = 1 if wide else logprobs._LOGITS_AT_ONCE
    model.train()
    with (
        mock.patch.object(logprobs, "_LOGITS_AT_ONCE", at_once),
        autocast(model, "bfloat16"),
    ):
        scores = logprobs.completion_scores(
            model, *rows, temperature=1.0, pad_id=PAD, sharing=sharing
        )
    found = logprobs_of(scores)
    torch.autograd.backward((found * exact.weights.to(found)).sum())
    return {
        "logprob_error": relative(found, exact.logprobs),
        "gradient_error": relative(_gradient(model), exact.gradient),
    }


def logprobs_of(scores: logprobs.CompletionScores) -> Tensor:
    """Row after row, without what fills a row up."""
    return torch.cat([row[:n] for row, n in zip(scores.logprobs, scores.lengths, strict=True)])


# The sampler: log-probs of what it drew, and its likeliest tokens.


def _sampler(
    check: Check, model: PreTrainedModel, exact: PreTrainedModel, rows: Rows, world: World
) -> None:
    model.eval()
    sampler = TorchSampler(model, build_tokenizer(world.size), dtype="bfloat16")
    prompts = dict.fromkeys(rows.prompts)
    requests = [
        SampleRequest(problem_id=str(number), prompt_ids=prompt, samples=6)
        for number, prompt in enumerate(prompts)
    ]
    for greedy in (False, True):
        row = check.row("gpu_correct", "sampler, greedy" if greedy else "sampler")
        parameters = SamplingParameters(
            max_tokens=40, stop_token_ids=tuple(range(1, 40)), greedy=greedy
        )
        with check.guarded(row, "sampler"), torch.no_grad():
            check.require()
            drawn = sampler.sample(requests, parameters, seed=0)
            pairs = [
                (r.prompt_ids, c) for r, group in zip(requests, drawn, strict=True) for c in group
            ]
            tables = [exact_logprobs(exact, prompt, c.token_ids) for prompt, c in pairs]
            wanted = torch.cat(
                [chosen(table, c.token_ids) for table, (_, c) in zip(tables, pairs, strict=True)]
            )
            found = torch.tensor([x for _, c in pairs for x in c.logprobs])
            errors = {"logprob_error": relative(found, wanted)}
            if greedy:  # up to ties: in units of the likeliest token's log-prob
                best = torch.cat([table.amax(dim=1) for table in tables])
                errors["argmax_error"] = float(((best - wanted) / best.abs()).max())
            _judge(check, row, **errors)
    if check.cuda:
        row = check.row("gpu_correct", "a token is one launch")
        refusals = sorted(sampler._logged)
        check.note(row, passed=not refusals, **({"refusals": refusals} if refusals else {}))


# The kernel: lengths that change between two replays, segments without keys, gradients.


def _attention(check: Check) -> None:
    for name, compared in _ATTENTION.items():
        if not check.cuda:
            print(f"{name}: needs CUDA: not measured")
            continue
        row = check.row("gpu_correct", name)
        with check.guarded(row, name):
            _judge(check, row, **compared())


def _packed(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_seeded()).to("cuda", torch.bfloat16)


def _places(*ends: int) -> Tensor:
    return torch.tensor(ends, dtype=torch.int32).to("cuda")


def _plain(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
    """Attention of one segment by a softmax; 0 without keys."""
    if not len(key):
        return torch.zeros_like(query)
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query, key) * query.shape[-1] ** -0.5
    if causal:
        later = torch.ones(len(query), len(key), dtype=torch.bool).triu(1 + len(key) - len(query))
        scores = scores.masked_fill(later, -torch.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), value)


def _under_capture() -> Mapping[str, float]:
    """A captured call, replayed with other numbers of keys than it was captured with."""
    query, key, value = _packed(6, 4, 64), _packed(48, 2, 64), _packed(48, 2, 64)
    segments = Segments(_places(0, 2, 4, 6), _places(0, 16, 32, 48), 2, 16)
    used = _places(16, 16, 16)

    def call() -> Tensor:
        return flash(query, key, value, segments, scaling=64**-0.5, used=used).out

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    wide = [x.cpu().double() for x in (query, key, value)]
    worst = {"error": 0.0, "without_keys": 0.0}
    for lengths in ((16, 16, 16), (5, 0, 16), (1, 9, 0)):
        used.copy_(_places(*lengths))
        graph.replay()
        found = out.cpu().double()
        for number, length in enumerate(lengths):
            rows = slice(2 * number, 2 * number + 2)
            keys = slice(16 * number, 16 * number + length)
            wanted = _plain(wide[0][rows], wide[1][keys], wide[2][keys])
            here = float((found[rows] - wanted).abs().max())
            name = "error" if length else "without_keys"
            worst[name] = max(worst[name], here if here == here else torch.inf)
    return worst


def _gradients() -> Mapping[str, float]:
    """Causal segments of different lengths, one of them of one token."""
    ends = (0, 17, 18, 50)
    tensors = _packed(50, 4, 64), _packed(50, 2, 64), _packed(50, 2, 64)
    segments = Segments(_places(*ends), _places(*ends), 32, 32)
    part = flash(*tensors, segments, scaling=64**-0.5, causal=True)
    grad = _packed(50, 4, 64)
    found = flash_backward(grad, *tensors, part, segments, scaling=64**-0.5, causal=True)
    wide = [x.cpu().double().requires_grad_() for x in tensors]
    spans = [slice(a, b) for a, b in pairwise(ends)]
    wanted = torch.cat([_plain(*(x[span] for x in wide), causal=True) for span in spans])
    exact = torch.autograd.grad(wanted, wide, grad.cpu().double())
    errors = {f"{n}_error": relative(f, w) for n, f, w in zip("qkv", found, exact, strict=True)}
    return {"error": relative(part.out, wanted), **errors}


_ATTENTION: Mapping[str, Callable[[], Mapping[str, float]]] = {
    "attention under capture": _under_capture,
    "attention and its gradients": _gradients,
}

"""Small Llamas from scratch: made from a seed, trained, saved once.

Muon moves the matrices, AdamW the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dph._base.files import atomic_path, make_directory, read_json, write_json
from dph.errors import ModelError, SettingsError
from dph.model.loading import new_tokenizer
from lab.worlds.world import Progress

# Muon in float32: torch's own works in bfloat16 and one matrix at a time, slow on a CPU.

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration (Jordan et al., 2024, Muon)."""
ITERATIONS = 5


def orthogonalize(matrices: Tensor) -> Tensor:
    """Push the singular values of each wide matrix of a stack towards 1 (roughly 0.7 to 1.2)."""
    a, b, c = NEWTON_SCHULZ
    x: Tensor = matrices / (matrices.flatten(1).norm(dim=1).view(-1, 1, 1) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon:
    """Orthogonalised momentum for weight matrices (Jordan et al., 2024), batched by shape.

    A parameter is a matrix, or a stack of matrices that are orthogonalised each by itself.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        learning_rate: float,
        momentum: float = 0.95,
        weight_decay: float = 0.02,
    ) -> None:
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self._groups: dict[tuple[int, ...], list[Tensor]] = {}
        for parameter in parameters:
            self._groups.setdefault(tuple(parameter.shape[-2:]), []).append(parameter)
        self._buffers = {
            shape: torch.zeros(sum(p.numel() for p in group) // (shape[0] * shape[1]), *shape)
            for shape, group in self._groups.items()
        }

    @torch.no_grad()
    def step(self, scale: float = 1.0) -> None:
        """Update every matrix from its gradient, at ``scale`` times the learning rate."""
        rate = self.learning_rate * scale
        for (rows, columns), group in self._groups.items():
            gradients = torch.cat(
                [p.grad.reshape(-1, rows, columns) for p in group if p.grad is not None]
            )
            buffer = self._buffers[rows, columns].mul_(self.momentum).add_(gradients)
            update = gradients.add_(buffer, alpha=self.momentum)
            update = orthogonalize(update.mT).mT if rows > columns else orthogonalize(update)
            size = rate * max(1.0, rows / columns) ** 0.5
            directions = torch.split(update, [p.numel() // (rows * columns) for p in group])
            for parameter, direction in zip(group, directions, strict=True):
                direction = direction.view_as(parameter)
                parameter.mul_(1 - rate * self.weight_decay).add_(direction, alpha=-size)


NO_TARGET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRows:
    """Rows of one length, each a prompt and one answer; a token sees all before it."""

    input_ids: Int[Tensor, "rows tokens"]
    targets: Int[Tensor, "rows tokens"]
    """The next token of the answer; NO_TARGET on prompts."""


# Word-level tokenizers of worlds: a token for each word of a closed vocabulary.

PAD, BOS, EOS, UNKNOWN = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIAL = (PAD, BOS, EOS, UNKNOWN)
"""First tokens of every vocabulary."""


def word_tokenizer(
    vocabulary: Sequence[str], pre_tokenizer: PreTokenizer
) -> PreTrainedTokenizerFast:
    """A tokenizer whose ids are the places in ``vocabulary``; a prompt begins with ``BOS``."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizer
    return with_special_tokens(backend)


def with_special_tokens(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """``backend``, which has ``SPECIAL``, for transformers; a prompt begins with ``BOS``."""
    return new_tokenizer(backend, pad=PAD, bos=BOS, eos=EOS, unknown=UNKNOWN)


WARM_UP_STEPS = 20
GRADIENT_NORM = 1.0
MADE_FROM = "made_from.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a Llama; the defaults give 0.3 M parameters in addition to the embeddings."""

    width: int = 96
    inner: int = 256
    layers: int = 3
    heads: int = 3
    context: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Learning rates; both warm up, then fall in a straight line to ``final`` of the full rate."""

    matrices: float = 0.02
    others: float = 4e-3
    final: float = 0.1

    def scale(self, step: int, steps: int) -> float:
        """The share of the full rate at a step."""
        return min(1.0, (step + 1) / WARM_UP_STEPS) * (1 - (1 - self.final) * step / steps)


def new_model(
    tokenizer: PreTrainedTokenizerFast, *, seed: int, shape: Shape | None = None
) -> LlamaForCausalLM:
    """A Llama with weights drawn from ``seed``, embeddings and head tied."""
    shape = shape or Shape()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):  # the constructor draws weights that we replace
        model = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    into_residual = (2 * config.num_hidden_layers) ** -0.5
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            std *= into_residual
        torch.nn.init.normal_(weight, std=std, generator=generator)
    return model


def target_logprobs(model: LlamaForCausalLM, rows: AnswerRows) -> Tensor:
    """Log-probs (nats) of all targets, row by row."""
    hidden = model.model(input_ids=rows.input_ids, use_cache=False).last_hidden_state
    chosen = rows.targets != NO_TARGET
    logits = model.lm_head(hidden[chosen])
    return -torch.nn.functional.cross_entropy(logits, rows.targets[chosen], reduction="none")


def train_model(
    model: LlamaForCausalLM,
    batches: Iterator[list[AnswerRows]],
    *,
    steps: int,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Maximise the mean log-prob of all targets of a batch, a step each."""
    rates = Rates()
    named = dict(model.named_parameters())
    matrices = {n: p for n, p in named.items() if p.dim() == 2 and "embed" not in n}
    others = [p for n, p in named.items() if n not in matrices]
    muon = Muon(matrices.values(), learning_rate=rates.matrices)
    adam = torch.optim.AdamW(others, lr=rates.others, betas=(0.9, 0.95), weight_decay=0.0)
    model.train()
    for step, batch in enumerate(batches):
        scale = rates.scale(step, steps)
        for group in adam.param_groups:
            group["lr"] = rates.others * scale
        model.zero_grad(set_to_none=True)
        targets = sum(int((rows.targets != NO_TARGET).sum()) for rows in batch)
        for rows in batch:
            loss = -target_logprobs(model, rows).sum() / targets
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        muon.step(scale)
        adam.step()
        if on_progress is not None:
            on_progress(1)
    model.eval()


Teach = Callable[[LlamaForCausalLM, PreTrainedTokenizerFast], None]
"""Trains a model whose weights are random."""


def train_once(
    directory: Path,
    make_tokenizer: Callable[[], PreTrainedTokenizerFast],
    teach: Teach,
    *,
    world: str,
    seed: int,
    steps: int,
    on_progress: Progress | None = None,
) -> None:
    """Make a model of ``seed``, have it taught, and save it as a transformers directory.

    The directory appears when training is done, and is kept when it was made from the same
    ``world`` (its fingerprint), seed and steps. The same seed and number of threads give the same
    weights. ``teach`` reports progress itself; here ``on_progress`` is told of a kept model.
    """
    if steps < 1:
        raise SettingsError(f"the base model needs at least 1 training step, got {steps=}")
    made_from = {"world": world, "seed": seed, "steps": steps}
    if is_trained(directory, made_from):
        if on_progress is not None:
            on_progress(steps)
        return
    make_directory(directory.parent)
    tokenizer = make_tokenizer()
    model = new_model(tokenizer, seed=seed)
    teach(model, tokenizer)
    save_model(directory, model, tokenizer, made_from)


def is_trained(directory: Path, made_from: Mapping[str, Any]) -> bool:
    """Whether a model that was made from the same lies in ``directory``."""
    if not directory.exists():
        return False
    marker = directory / MADE_FROM
    found = read_json(marker) if marker.exists() else None
    if found != made_from:
        raise ModelError(
            f"{directory} holds a model made from {found}, not {made_from}; "
            "choose another directory (--out) or remove it"
        )
    return True


def save_model(
    directory: Path,
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    made_from: Mapping[str, Any],
) -> None:
    """Write a transformers directory that says what it was made from, whole or not at all."""
    make_directory(directory.parent)
    with atomic_path(directory) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        write_json(temporary / MADE_FROM, dict(made_from))

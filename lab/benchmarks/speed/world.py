"""What both sides are given: weights, tokenizer, prompts, stop tokens, reward."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from lab.benchmarks.speed.shapes import ModelSize, Shape
from lab.smollm2 import HOW, smollm2_place

PAD, END = 0, 1
FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A shape with the model it is measured on, where and in which precision."""

    size: ModelSize
    shape: Shape
    device: str = "cpu"
    dtype: str = "float32"

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """The tokens that end a completion."""
        return self.shape.stop_tokens(self.size.vocabulary)


def build_model(world: World, *, seed: int = 0) -> PreTrainedModel:
    """The model with float32 weights; the same seed gives the same weights.

    In a context of another device or default dtype, its weights are of those.

    Raises:
        FileNotFoundError: SmolLM2 is asked for, but not there.
    """
    size, shape = world.size, world.shape
    if size.family == "smollm2":
        return _for_world(_smollm2(), world)
    config_class, model_class = FAMILIES[size.family]
    torch.manual_seed(seed)
    model = model_class(
        config_class(
            vocab_size=size.vocabulary,
            hidden_size=size.hidden,
            intermediate_size=size.intermediate,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.kv_heads,
            **({"head_dim": size.head} if size.head else {}),
            max_position_embeddings=max(4096, shape.prompt + shape.completion),
            tie_word_embeddings=size.family == "qwen2" if size.tied is None else size.tied,
            pad_token_id=PAD,
            bos_token_id=None,
            eos_token_id=END,
            attn_implementation="sdpa",
        )
    )
    return _for_world(model, world)


def _smollm2() -> PreTrainedModel:
    place = smollm2_place()
    if place is None:
        raise FileNotFoundError(f"SmolLM2 is not there: {HOW}")
    model: PreTrainedModel = LlamaForCausalLM.from_pretrained(
        place, dtype=torch.float32, attn_implementation="sdpa"
    )
    model.config.pad_token_id, model.config.eos_token_id = PAD, END
    model.config.bos_token_id = None
    return model


def _for_world(model: PreTrainedModel, world: World) -> PreTrainedModel:
    # Both sides read it: the peer's trainer from here, ours from the world.
    model.generation_config.eos_token_id = list(world.stop_tokens)
    return model.to(world.device)


def build_tokenizer(size: ModelSize) -> PreTrainedTokenizerFast:
    """One token a word: ``w2 w3 ...``."""
    words = ["<pad>", "<end>", *(f"w{i}" for i in range(2, size.vocabulary))]
    vocabulary = {word: i for i, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def make_prompts(world: World, count: int, *, seed: int = 0) -> list[str]:
    """``count`` different prompts of exactly the shape's length."""
    shape = world.shape
    ids = _words(world, count, shape.prompt, seed=seed)
    if shape.schemas:  # the same ones for every seed
        schemas = _words(world, shape.schemas, shape.schema, seed=2)
        ids[:, : shape.schema] = schemas[torch.arange(count) % shape.schemas]
    return [" ".join(f"w{i}" for i in row) for row in ids.tolist()]


def _words(world: World, count: int, length: int, *, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, world.size.vocabulary, (count, length), generator=generator)


def reward(text: str) -> float:
    """The share of words with an even number: cheap, and practically never equal in a group."""
    words = text.split()
    return sum(int(word[1:]) % 2 == 0 for word in words) / max(1, len(words))


def rewards(*, completions: Sequence[str], **_: object) -> list[float]:
    """`reward` as the peer's trainer calls it."""
    return [reward(text) for text in completions]

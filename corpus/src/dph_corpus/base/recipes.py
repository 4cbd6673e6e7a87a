"""Recipes of ``dph-corpus base`` and ``sft``: one TOML file each, checked without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dph.errors import SettingsError
from dph.recipe.section import (
    Count,
    Device,
    Name,
    PlacedPath,
    Positive,
    Precision,
    Section,
    load_file,
    read_table,
)

# The learning rate of a base model: warm-up, constant, then exponential annealing (WSD).


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupStableDecay:
    """Share of the full learning rate at each step.

    Equation: (t + 1) / warmup for t < warmup; 1 for warmup <= t < warmup + stable; then
    final ** ((t - warmup - stable + 1) / decay), so that the last step has exactly ``final``.
    Source: MiniCPM (arXiv:2404.06395), with OpenCoder's exponential decay from 3e-4 to 1e-5
    (arXiv:2411.04905). transformers' ``get_wsd_schedule`` decays by line, cosine or 1-sqrt alone.

    Args:
        warmup: steps of linear warm-up.
        stable: steps at the full rate.
        decay: steps of annealing; 0: none.
        final: share of the rate at the last step of annealing.

    >>> rates = WarmupStableDecay(warmup=2, stable=1, decay=2, final=0.01)
    >>> print(*(rates(step) for step in range(5)))
    0.5 1.0 1.0 0.1 0.01
    """

    warmup: int
    stable: int
    decay: int
    final: float

    def __post_init__(self) -> None:
        if min(self.warmup, self.stable, self.decay) < 0:
            raise SettingsError(
                "steps must be at least 0, got "
                f"warmup={self.warmup}, stable={self.stable}, decay={self.decay}"
            )
        if not 0 < self.final <= 1:
            raise SettingsError(f"final must lie in (0, 1], got {self.final}")

    @property
    def steps(self) -> int:
        """All steps."""
        return self.warmup + self.stable + self.decay

    def __call__(self, step: int) -> float:
        """The share at ``step``, counted from 0; behind the last one it stays."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        annealed = min(step - self.warmup - self.stable + 1, self.decay)
        return 1.0 if annealed <= 0 else float(self.final ** (annealed / self.decay))


Rate = Annotated[float, Field(gt=0)]


class ShapeSettings(Section):
    """``[model]``: sizes of a Llama that begins with random weights."""

    width: Positive = Field(description="width of the residual stream")
    inner: Positive = Field(description="width of the feed-forward layers")
    layers: Positive
    heads: Positive = Field(description="of the queries")
    kv_heads: Positive | None = Field(None, description="heads of keys and values; default: heads")
    rope_theta: Rate = Field(10_000.0, description="base of the rotary positions")
    tied: bool = Field(True, description="share weights between the head and the embedding")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        keys = self.kv_heads or self.heads
        if self.width % (2 * self.heads) or self.heads % keys:
            raise ValueError(
                "need width a multiple of 2 * heads and heads one of kv_heads, got "
                f"width={self.width}, heads={self.heads}, kv_heads={keys}"
            )
        return self


class TokenizerSettings(Section):
    """``[tokenizer]``: one that exists, or a byte-level BPE trained on the corpus."""

    path: PlacedPath | None = Field(
        None, description="directory of a saved model, whose tokenizer is used"
    )
    vocabulary: int = Field(2048, ge=261, description="vocabulary size of the tokenizer to train")
    megabytes: Positive = Field(
        8, description="maximum megabytes of text to train it on, per corpus"
    )


class DeviceSettings(Section):
    """``[device]``: where and in which precision."""

    device: Device = Field("auto", description="auto: the GPU if there is one")
    dtype: Precision = Field("float32", description="bfloat16: computes under autocast")
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    gradient_checkpointing: bool = False
    threads: Count = Field(0, description="CPU threads of torch; 0 leaves torch's own choice")


class AdamSettings(Section):
    """Settings of AdamW, whatever the schedule."""

    learning_rate: Rate
    betas: Annotated[tuple[float, float], Field(strict=False)] = (0.9, 0.95)
    eps: Rate = 1e-8
    weight_decay: float = Field(0.1, ge=0)
    max_grad_norm: Rate = 1.0


class BaseDataSettings(Section):
    """``[data]``: corpora, as stages of `dph-corpus` leave them."""

    corpus: PlacedPath = Field(description="corpus for warm-up and the constant rate")
    annealing: PlacedPath | None = Field(
        None, description="corpus for the falling rate; default: the same corpus, continued"
    )


class BaseTrainSettings(AdamSettings):
    """``[train]`` of a base model."""

    learning_rate: Rate = 3e-4
    final_rate: Rate = Field(1e-5, description="learning rate of the last step of annealing")
    warmup_steps: Count = 2000
    steps: Positive = Field(description="optimizer steps on the corpus, including warm-up")
    annealing_steps: Count = Field(0, description="further steps, at the falling rate")
    context: Positive = Field(description="tokens of a sequence")
    sequences_per_step: Positive = Field(description="sequences per optimizer step")
    sequences_at_once: Positive = Field(1, description="sequences in one forward pass of a device")
    checkpoint_every: Positive = Field(500, description="steps between checkpoints")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.warmup_steps > self.steps:
            raise ValueError(
                f"need warmup_steps <= steps, got warmup_steps={self.warmup_steps}, "
                f"steps={self.steps}"
            )
        if self.final_rate > self.learning_rate:
            raise ValueError(
                f"need final_rate <= learning_rate, got final_rate={self.final_rate}, "
                f"learning_rate={self.learning_rate}"
            )
        _require_whole(self.sequences_per_step, self.sequences_at_once)
        return self


class BaseRecipe(Section):
    """A base model: kind = "base"."""

    kind: Literal["base"]
    name: Name = "base"
    seed: Count = 0
    notes: str = ""
    data: BaseDataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ShapeSettings | None = Field(None, description="random weights of this shape")
    continued: PlacedPath | None = Field(
        None, description="the weights of this directory, instead of [model]"
    )
    train: BaseTrainSettings
    device: DeviceSettings = DeviceSettings()

    @model_validator(mode="after")
    def _begins_somewhere(self) -> Self:
        if (self.model is None) == (self.continued is None):
            raise ValueError("give [model] (random weights) or continued (a directory), not both")
        if self.continued is not None and self.tokenizer != TokenizerSettings():
            raise ValueError("a continued model has its own tokenizer: leave [tokenizer] out")
        if self.data.annealing is not None and not self.train.annealing_steps:
            raise ValueError(
                f"data.annealing needs train.annealing_steps, got annealing={self.data.annealing}, "
                "annealing_steps=0"
            )
        return self


class SFTStageSettings(AdamSettings):
    """``[[stages]]``: one stage of fine-tuning; each begins with the weights of the one before."""

    name: Name
    rows: Annotated[tuple[PlacedPath, ...], Field(strict=False, min_length=1)] = Field(
        description="files of rows, as `dph-corpus instruct` writes them"
    )
    epochs: Positive = 1
    max_tokens: Positive = Field(description="maximum tokens of a row and of a packed sequence")
    sequences_per_step: Positive = Field(description="packed sequences per optimizer step")
    sequences_at_once: Positive = Field(1, description="sequences in one forward pass of a device")
    warmup_steps: Count = 100
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    checkpoint_every: Positive = Field(200, description="steps between checkpoints")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _require_whole(self.sequences_per_step, self.sequences_at_once)
        return self


class SFTRecipe(Section):
    """Supervised fine-tuning: kind = "sft"."""

    kind: Literal["sft"]
    name: Name = "sft"
    seed: Count = 0
    notes: str = ""
    model: PlacedPath = Field(description="directory of a saved model and its tokenizer")
    chat: bool = Field(False, description="wrap text prompts as a user message")
    stages: Annotated[tuple[SFTStageSettings, ...], Field(strict=False, min_length=1)]
    device: DeviceSettings = DeviceSettings()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"stages need different names, got {', '.join(names)}")
        return self


LMRecipe = BaseRecipe | SFTRecipe
KINDS: dict[str, type[BaseRecipe] | type[SFTRecipe]] = {"base": BaseRecipe, "sft": SFTRecipe}


def recipe_kind(path: Path) -> str:
    """``kind`` of a file: base, sft, or '' where it says none, as recipes of RL do."""
    kind = read_table(path).get("kind", "")
    return kind if isinstance(kind, str) else repr(kind)


def load_lm_recipe(path: Path, overrides: Sequence[str] = ()) -> LMRecipe:
    """Read a recipe of either kind."""
    kind = recipe_kind(path)
    if kind not in KINDS:
        raise SettingsError(f'{path}: kind must be "base" or "sft", got {kind!r}')
    return load_file(KINDS[kind], path, overrides)


def _require_whole(whole: int, part: int) -> None:
    if whole % part:
        raise ValueError(
            "need sequences_per_step a multiple of sequences_at_once, got "
            f"sequences_per_step={whole}, sequences_at_once={part}"
        )

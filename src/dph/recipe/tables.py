"""The settings of ``[model]``, ``[presample]``, ``[sampling]``, ``[train]`` and other tables."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dph._base.provenance import install_command
from dph.errors import SettingsError
from dph.recipe.places import LocalPath
from dph.recipe.section import (
    Count,
    Device,
    Engine,
    FilePath,
    Positive,
    Section,
    Stored,
    Whole,
    WrongFinal,
    with_default,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A package that comes with an extra of this one.

    >>> print(PEFT.missing)  # doctest: +ELLIPSIS
    [model.adapter] needs PEFT, which is not installed: pip install ...[peft]'
    """

    needed_by: str
    package: str
    title: str
    name: str

    @property
    def is_installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def missing(self) -> str:
        command = install_command(self.name)
        return f"{self.needed_by} needs {self.title}, which is not installed: {command}"


PEFT = Extra(needed_by="[model.adapter]", package="peft", title="PEFT", name="peft")
LIGER = Extra(
    needed_by='model.kernels = "liger"', package="liger_kernel", title="liger-kernel", name="gpu"
)
BITSANDBYTES = Extra(
    needed_by='model.weights = "nf4"', package="bitsandbytes", title="bitsandbytes", name="nf4"
)
TORCHAO = Extra(
    needed_by='model.weights = "bfloat16" without [model.adapter]',
    package="torchao",
    title="torchao",
    name="low-memory",
)


def _or_number(*words: str) -> BeforeValidator:
    def checked(value: Any) -> Any:
        if value in words or (type(value) is int and value > 0):
            return value
        raise ValueError(
            f"should be {', '.join(map(repr, words))} or a number above 0, got {value!r}"
        )

    return BeforeValidator(checked)


Size = Annotated[Literal["auto"] | int, _or_number("auto")]

ALL_LINEAR = "all-linear"
"""Every linear layer but the output layer."""


def _targets(value: Any) -> Any:
    if value == ALL_LINEAR:
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(n, str) and n for n in value):
        return tuple(value)
    raise ValueError(
        f'should be "{ALL_LINEAR}" or a list of names of linear layers such as ["q_proj", '
        f'"v_proj"], got {value!r}'
    )


class AdapterSettings(Section):
    """Small matrices next to the model's, which are trained in its place (PEFT).

    Whatever ``init`` says, the adapter changes nothing before the first step: with it off the
    model is the initial policy, so methods that compare with that need no second set of weights.
    """

    kind: Literal["lora", "dora"] = Field(
        description="lora (arXiv:2106.09685), or dora, which also trains the length of every row "
        "of weights (arXiv:2402.09353)"
    )
    rank: Positive = Field(16, description="rows of the small matrices")
    alpha: float = Field(
        32.0, gt=0, description="scale: the product of the matrices is multiplied by alpha / rank"
    )
    targets: Annotated[Literal["all-linear"] | tuple[str, ...], BeforeValidator(_targets)] = Field(
        "all-linear",
        description="layers that get an adapter, by the ends of their names; all-linear: every "
        "linear layer except the output layer",
    )
    init: Literal["kaiming", "gaussian", "orthogonal"] = Field(
        "kaiming", description="initialisation; all three leave the model unchanged at the start"
    )


class ModelSettings(Section):
    """Choice of the model, its device and its precision."""

    path: str = Field(
        min_length=1,
        description="directory of a saved transformers model and its tokenizer, or a model of the "
        "Hub as org/name",
    )
    revision: str | None = Field(
        None,
        min_length=1,
        description="branch, tag or commit of a model of the Hub; default: its main branch when "
        "the run begins",
    )
    device: Device = Field("auto", description="auto: the GPU if there is one")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="precision of the computation: bfloat16 multiplies matrices under autocast; "
        "auto: bfloat16 on a GPU, float32 on a CPU; float32 uses no TF32",
    )
    weights: Stored = Field(
        "float32",
        description="precision of the weights in memory: bfloat16 halves them, frozen under an "
        "adapter or trained by 8-bit AdamW with stochastic rounding; nf4: 4 bits, under an adapter",
    )
    kernels: Literal["auto", "torch", "liger"] = Field(
        "auto",
        description="kernels of norms, rotary embeddings and gated layers on a GPU: auto: Liger's "
        "where it is installed",
    )
    adapter: AdapterSettings | None = Field(
        None, description="a table [model.adapter]: train an adapter with frozen weights"
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa", description="attention implementation of transformers"
    )
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    threads: Count = Field(0, description="CPU threads of torch; 0 leaves torch's own choice")

    @model_validator(mode="after")
    def _weights_fit_the_computation(self) -> Self:
        if self.weights != "float32" and self.dtype == "float32":
            raise ValueError(
                f'weights = "{self.weights}" needs computation in bfloat16: set model.dtype = '
                f'"bfloat16" too, got {self.dtype!r}'
            )
        if self.weights == "nf4" and self.adapter is None:
            raise ValueError('weights = "nf4" are frozen: add [model.adapter], which is trained')
        return self


class PresamplingSettings(Section):
    """Split of the problems by the initial policy's answers, and the answers to keep."""

    samples: Positive = Field(
        8, description="samples per problem that decide its side of the split"
    )
    threshold: Positive = Field(
        7, description="near-perfect if at least this many are correct (default: 7/8 of samples)"
    )
    wrong_final: WrongFinal = Field(
        "discard",
        description="near-perfect problem with a wrong final sample: leave it out, or explore it",
    )
    keep: Positive = Field(
        1,
        description="stored answers of a near-perfect problem: the final sample, then correct ones "
        "of the deciding samples",
    )
    seed: Count | None = Field(
        None,
        description="seed of the pool's samples, so that runs of several seeds can share a pool; "
        "default: seed",
    )
    pool: FilePath | None = Field(
        None, description="directory of the pool; default: pool/ in the run directory"
    )

    @model_validator(mode="before")
    @classmethod
    def _threshold_follows_samples(cls, data: Any) -> Any:
        return with_default(data, "threshold", "samples", lambda n: math.ceil(7 * n / 8))

    @model_validator(mode="after")
    def _samples_are_drawn(self) -> Self:
        if self.keep > self.samples + 1:
            raise ValueError(
                f"need keep <= samples + 1, got keep={self.keep}, samples={self.samples}"
            )
        self._require_at_most("threshold", "samples")
        return self


MAX_ROWS, CACHE_TOKENS = 256, 262144
"""Rows and tokens of the sampler's cache where they do not follow from a GPU's memory."""


class SamplingSettings(Section):
    """Sampling of completions while pre-sampling and training."""

    engine: Literal["torch", "vllm"] = Field(
        "torch", description="sampler of pre-sampling and evaluation; training always uses torch"
    )
    temperature: float = Field(1.0, gt=0, description="softmax temperature")
    top_p: float = Field(
        1.0, gt=0, le=1, description="mass of nucleus sampling; log-probs stay those of all tokens"
    )
    max_tokens: Positive = Field(512, description="longest completion, tokens")
    stop: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="stop tokens in addition to the end-of-sequence token (text of one token each)",
    )
    max_rows: Size = Field(
        "auto", description="completions decoded at a time; auto: 256, or by a GPU's free memory"
    )
    cache_tokens: Size = Field(
        "auto",
        description="token limit of the cache: each prompt once, and max_tokens per completion; "
        "auto: 262144, or by a GPU's free memory",
    )


class VLLMSettings(Section):
    """Settings of vLLM, for sampling.engine = "vllm"."""

    memory: float = Field(
        0.5,
        gt=0,
        le=1,
        description="share of a GPU's memory (on CPUs: of the machine's); the scoring model needs "
        "some too",
    )
    gpus: Positive = Field(1, description="GPUs that share one copy of the model")
    context: Count = Field(
        0, description="longest prompt plus completion, tokens; 0: the longest that fits"
    )
    eager: bool = Field(
        False, description="disable CUDA graphs: starts sooner, samples more slowly"
    )


class SelfConsistencySettings(Section):
    """Groups of unlabelled prompts in the place of some of a step's problems."""

    problems_per_step: Annotated[Whole, Field(ge=0)] = Field(
        0, description="unlabelled problems per rollout, of train.problems_per_step; 0: off"
    )
    file: LocalPath | None = Field(
        None, description="problems without answers as parquet, jsonl or csv (problem_id, prompt)"
    )
    only: dict[str, str | int | float | bool] = Field(
        {}, description="keep only rows of the file whose columns have these values"
    )
    novel: bool = Field(
        False, description="keep only prompts with a word that is in no training prompt"
    )
    allow_overlap: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="evaluation sets whose prompts may occur here; prompts of all others are "
        "refused",
    )
    agreement: str | None = Field(
        None,
        description="rule for agreement of two answers: your own module:callable, f(response, "
        "problem) -> key or None; default: by data.verifier",
    )

    @property
    def active(self) -> bool:
        return self.problems_per_step > 0

    def require_file(self) -> None:
        """Refuse a run without the file of prompts; its recipe can still be shown and completed."""
        if self.active and self.file is None:
            raise SettingsError(
                f"self_consistency.problems_per_step = {self.problems_per_step} needs "
                "self_consistency.file: a file of prompts without answers (problem_id, prompt, and "
                "the fields other than the answer that the verifier reads, such as database)"
            )


Override = Annotated[str, Field(pattern=r"^[+~]{0,2}[A-Za-z_][\w.@/-]*(=.*)?$")]
"""One of Hydra's: ``key=value``, ``+key=value``, ``++key=value`` or ``~key``."""


class VerlSettings(Section):
    """Settings of verl, for train.engine = "verl"."""

    nodes: Positive = Field(1, description="machines of the Ray cluster")
    gpus: Positive = Field(1, description="GPUs of each machine")
    address: str | None = Field(
        None,
        min_length=1,
        description="Ray cluster to join, host:port or auto; default: Ray is started on this "
        "machine",
    )
    rollout: str = Field(
        "vllm", min_length=1, description="sampler of verl's training and pre-sampling"
    )
    overrides: Annotated[tuple[Override, ...], Field(strict=False)] = Field(
        (), description="further verl settings, as Hydra overrides; they take precedence"
    )


class TrainingSettings(Section):
    """The loop, the optimizer and the checkpoints."""

    engine: Engine = Field(
        "own", description="training engine: own (this package's loop, one device), or verl"
    )
    problems: Literal["all", "exploration"] = Field(
        "all", description="problems to explore: all, or those that pre-sampling left open"
    )
    steps: Positive = Field(
        100, description="number of rollouts; each is followed by its optimizer steps"
    )
    problems_per_step: Count = Field(
        32, description="problems per rollout; 0: learn from stored answers only"
    )
    samples_per_problem: int = Field(8, ge=2, description="completions per problem (the group)")
    rehearsal_per_step: Positive = Field(
        32, description="stored samples per rollout, if the method rehearses"
    )
    minibatches: Positive = Field(2, description="optimizer steps per epoch")
    epochs: Positive = Field(1, description="passes over a rollout")
    learning_rate: float = Field(1e-6, gt=0, description="learning rate of AdamW")
    final_rate: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the learning rate at the last step, reached by linear decay",
    )
    warmup_steps: Count = Field(0, description="optimizer steps of linear warm-up")
    betas: tuple[float, float] = Field((0.9, 0.95), strict=False, description="betas of AdamW")
    eps: float = Field(1e-8, gt=0, description="epsilon of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of AdamW")
    max_grad_norm: float = Field(
        1.0, gt=0, description="largest norm of gradients; larger ones are scaled down"
    )
    microbatch_tokens: Positive = Field(
        16384,
        description="tokens computed in one forward pass; gradients accumulate to the mini-batch",
    )
    shared_prompts: Literal["auto", "always", "never"] = Field(
        "auto",
        description="compute prefixes that rows share once: auto where it is faster, or always or "
        "never",
    )
    old_logprobs: Literal["auto", "sampler", "recompute"] = Field(
        "auto",
        description="old log-probs: the sampler's, or one more forward pass; auto: the sampler's "
        "in float32, in bfloat16 those of the gradient pass at the first optimizer step (ratio 1)",
    )
    checkpoint_every: Positive = Field(10, description="steps between checkpoints")
    keep_checkpoints: Positive = Field(1, description="checkpoints kept")
    keep_samples: Annotated[Literal["all", "none"] | int, _or_number("all", "none")] = Field(
        4,
        description="answers kept for reading: those of this many problems per step, all, or none",
    )
    keep_samples_mb: Positive = Field(
        256,
        description="size limit of kept answers in megabytes; the oldest steps are removed first",
    )

    @model_validator(mode="after")
    def _batches_fit(self) -> Self:
        if self.problems_per_step:
            self._require_at_most("minibatches", "problems_per_step")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must lie in [0, 1), got {self.betas}")
        return self


class TrackingSettings(Section):
    """Targets of metrics in addition to metrics.jsonl."""

    to: Annotated[tuple[Literal["tensorboard", "wandb", "trackio"], ...], Field(strict=False)] = (
        Field((), description="trackers of accelerate: tensorboard, wandb, trackio")
    )
    project: str = Field("dph", description="project name shown by the tracker")
    answers: Count = Field(
        256, description="answers of each evaluated set in the tables of wandb and trackio; 0: none"
    )

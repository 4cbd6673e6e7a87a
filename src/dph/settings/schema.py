"""Every setting of a recipe: its type, range, default and meaning.

The descriptions are what ``dph recipe show`` prints, so they are one line each.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

FilePath = Annotated[Path, Field(strict=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Phrase = Annotated[str, Field(pattern=r"\S")]


def _with_default(data: Any, name: str, other: str, default: Callable[[int], Any]) -> Any:
    """Let the default of ``name`` follow ``other`` where only the latter was given."""
    given = data.get(other) if isinstance(data, dict) and name not in data else None
    return {**data, name: default(given)} if isinstance(given, int) and given > 0 else data


class Section(BaseModel):
    """A frozen table of settings; an unknown key or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ModelSettings(Section):
    """Which model, where, and in which precision."""

    path: str = Field(
        min_length=1, description="directory of a saved transformers model and its tokenizer"
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto takes the GPU if there is one"
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32", description="bfloat16 computes under autocast over float32 weights"
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa", description="attention implementation of transformers"
    )
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    threads: Count = Field(0, description="CPU threads of torch; 0 leaves torch's own choice")


class SetSettings(Section):
    """One evaluation set."""

    path: FilePath = Field(description="jsonl or parquet of problems")
    verifier: str | None = Field(None, description="verifier of this set; default: data.verifier")
    styles: str | None = Field(
        None, description="style classifier of this set; default: data.styles"
    )


class DataSettings(Section):
    """Problems, how they are graded, and how the prompt is written."""

    train: FilePath = Field(
        description="jsonl or parquet of problems (problem_id, prompt, answer ...)"
    )
    sets: dict[str, SetSettings] = Field({}, description="evaluation sets by name")
    verifier: str = Field(
        "exact", description="sql, math, math_qwen, number, exact, or module:function of your own"
    )
    verifier_workers: Positive = Field(1, description="worker processes of the verifier")
    verifier_timeout: float = Field(
        5.0, gt=0, description="seconds an answer may take to be graded"
    )
    databases: FilePath | None = Field(
        None, description="where relative database paths start (sql)"
    )
    sql_rule: Literal["spider", "bird", "bird_soft_f1", "strict", "cartesian"] = Field(
        "bird", description="when two results are equal (sql)"
    )
    math_phrases: Annotated[tuple[Phrase, ...], Field(strict=False)] | None = Field(
        None, description="what announces an answer without a box (math); default: its own list"
    )
    math_any_expression: bool = Field(
        True, description="without box and phrase, the last expression counts (math)"
    )
    styles: str | None = Field(None, description="style classifier: sql, or module:function")
    chat: bool = Field(
        False, description="wrap a text prompt as a user message of the chat template"
    )
    system_prompt: str = Field("", description="system message of the chat template")

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_path_for_a_set(cls, data: Any) -> Any:
        sets = data.get("sets") if isinstance(data, dict) else None
        if not isinstance(sets, dict):
            return data
        plain = {name: {"path": s} if isinstance(s, str) else s for name, s in sets.items()}
        return {**data, "sets": plain}


class SamplingSettings(Section):
    """How completions are drawn while pre-sampling and training."""

    engine: Literal["torch", "vllm"] = Field(
        "torch", description="what draws while pre-sampling and evaluating; training: always torch"
    )
    temperature: float = Field(1.0, gt=0, description="softmax temperature")
    top_p: float = Field(
        1.0, gt=0, le=1, description="nucleus; log-probs stay those of the full vocabulary"
    )
    max_tokens: Positive = Field(512, description="longest completion, tokens")
    stop: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="more stop tokens beside the end-of-sequence token (text of one token each)"
    )
    max_rows: Positive = Field(256, description="completions decoded side by side")
    cache_tokens: Positive = Field(
        262144,
        description="tokens the cache may hold: each prompt once, and max_tokens a completion",
    )
    cuda_graphs: bool = Field(
        False, description="replay decoding steps as CUDA graphs (not yet run on a GPU)"
    )


class VLLMSettings(Section):
    """How vLLM is set up, for sampling.engine = "vllm"."""

    memory: float = Field(
        0.5, gt=0, le=1, description="share of a GPU's memory; the scoring model needs some beside"
    )
    gpus: Positive = Field(1, description="GPUs that share one copy of the model")
    context: Count = Field(
        0, description="longest prompt and completion together, tokens; 0: the longest that fits"
    )
    eager: bool = Field(False, description="no CUDA graphs: starts sooner, draws slower")


class PresamplingSettings(Section):
    """How the initial policy's answers split the problems and what is kept."""

    samples: Positive = Field(8, description="samples a problem that decide its side of the split")
    threshold: Positive = Field(
        7, description="near-perfect when at least this many are correct (default: 7/8 of samples)"
    )
    wrong_final: Literal["discard", "explore"] = Field(
        "discard",
        description="near-perfect, but the final sample is wrong: leave it out, or explore it",
    )
    pool: FilePath | None = Field(
        None, description="where the pool lies; default: pool/ in the run directory"
    )

    @model_validator(mode="before")
    @classmethod
    def _threshold_follows_samples(cls, data: Any) -> Any:
        return _with_default(data, "threshold", "samples", lambda n: math.ceil(7 * n / 8))

    @model_validator(mode="after")
    def _threshold_fits(self) -> Self:
        if self.threshold > self.samples:
            raise ValueError(
                f"need threshold <= samples, got threshold={self.threshold}, samples={self.samples}"
            )
        return self


class ObjectiveSettings(Section):
    """The loss. Named methods set these; see dph.settings.methods."""

    clip_low: float = Field(
        0.2, gt=0, lt=1, description="the ratio is clipped below at 1 - clip_low"
    )
    clip_high: float = Field(0.2, gt=0, description="the ratio is clipped above at 1 + clip_high")
    reduction: Literal["token_mean", "sequence_mean", "fixed_length"] = Field(
        "token_mean", description="how token losses are averaged over a mini-batch"
    )
    advantage_scale: Literal["std", "none"] = Field(
        "std", description="divide group advantages by the group's standard deviation, or not"
    )
    kl_coefficient: float = Field(
        0.0, ge=0, description="weight of the KL penalty on policy samples"
    )
    kl_estimator: Literal["k2", "k3"] = Field(
        "k3",
        description="k2: gradient of the reverse KL; k3: the usual 'KL' loss (forward-KL gradient)",
    )
    divergence: Literal["none", "forward_kl", "jensen_shannon", "alpha", "reverse_kl"] = Field(
        "none", description="f-divergence on rehearsal samples"
    )
    forward_kl_form: Literal["k3", "nll"] = Field("k3", description="form of the forward KL")
    alpha: float = Field(
        0.5, gt=0, lt=1, description="alpha of the alpha divergence (1: forward KL)"
    )
    js_definition: bool = Field(
        False, description="Jensen-Shannon by its definition: both halves, with a reference model"
    )
    eta: float = Field(0.0, ge=0, description="weight of the rehearsal term")
    dynamic_sampling: bool = Field(
        False, description="draw more problems until enough groups hold right and wrong answers"
    )
    max_refills: Count = Field(10, description="how often a step may draw more problems")
    overlong_buffer: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="soft overlong penalty over this last share of max_tokens; 0: off",
    )
    overlong_penalty: float = Field(1.0, ge=0, description="penalty of a completion at max_tokens")
    overlong_filter: bool = Field(
        False, description="leave completions that were cut off at max_tokens out of the loss"
    )

    @model_validator(mode="after")
    def _terms_fit_together(self) -> Self:
        if self.js_definition and self.divergence != "jensen_shannon":
            raise ValueError(
                f"js_definition needs divergence='jensen_shannon', got {self.divergence!r}"
            )
        if self.eta > 0 and self.divergence == "none":
            raise ValueError(f"eta={self.eta} needs a divergence, got divergence='none'")
        return self

    @property
    def rehearses(self) -> bool:
        """Whether stored samples take part in the loss."""
        return self.divergence != "none" and self.eta > 0

    @property
    def needs_reference_model(self) -> bool:
        """Whether log-probs of the initial policy are needed on new samples."""
        return self.kl_coefficient > 0 or (self.js_definition and self.rehearses)


class TrainingSettings(Section):
    """The loop, the optimizer and the checkpoints."""

    problems: Literal["all", "exploration"] = Field(
        "all", description="which problems are explored: all, or those that pre-sampling left open"
    )
    steps: Positive = Field(100, description="rollouts; each is followed by its optimizer steps")
    problems_per_step: Positive = Field(32, description="problems a rollout")
    samples_per_problem: int = Field(8, ge=2, description="completions a problem (the group)")
    rehearsal_per_step: Positive = Field(
        32, description="stored samples a rollout, when the method rehearses"
    )
    minibatches: Positive = Field(2, description="optimizer steps an epoch")
    epochs: Positive = Field(1, description="passes over a rollout")
    learning_rate: float = Field(1e-6, gt=0, description="of AdamW")
    warmup_steps: Count = Field(0, description="optimizer steps of linear warm-up")
    betas: Annotated[tuple[float, float], Field(strict=False)] = Field(
        (0.9, 0.95), description="of AdamW"
    )
    eps: float = Field(1e-8, gt=0, description="of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="of AdamW")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    microbatch_tokens: Positive = Field(
        16384,
        description="tokens computed in one forward pass; gradients accumulate to the mini-batch",
    )
    shared_prompts: Literal["auto", "always", "never"] = Field(
        "auto",
        description="compute once what rows begin with alike: where it is faster, or as said",
    )
    old_logprobs: Literal["auto", "sampler", "recompute"] = Field(
        "auto",
        description="old log-probs: the sampler's (exact in float32), or one more forward pass",
    )
    checkpoint_every: Positive = Field(10, description="steps between checkpoints")
    keep_checkpoints: Positive = Field(1, description="checkpoints kept")

    @model_validator(mode="after")
    def _batches_fit(self) -> Self:
        if self.minibatches > self.problems_per_step:
            raise ValueError(
                "need minibatches <= problems_per_step, got "
                f"minibatches={self.minibatches}, problems_per_step={self.problems_per_step}"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must lie in [0, 1), got {self.betas}")
        return self


class EvaluationSettings(Section):
    """What is measured of a model."""

    samples: Positive = Field(32, description="samples a problem")
    k: Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)] = Field(
        (1, 8, 16, 32), description="the k of Pass@k (default: those up to samples)"
    )
    temperature: float = Field(1.0, gt=0, description="softmax temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus")
    max_tokens: Positive | None = Field(
        None, description="longest completion; default: sampling.max_tokens"
    )
    retention_k: Positive = Field(8, description="k of keep and explore")
    seed: Count = Field(0, description="seed of the samples and of the bootstrap")

    @model_validator(mode="before")
    @classmethod
    def _k_follows_samples(cls, data: Any) -> Any:
        return _with_default(data, "k", "samples", lambda n: [k for k in (1, 8, 16, 32) if k <= n])

    @model_validator(mode="after")
    def _k_fits(self) -> Self:
        largest = max(self.k)
        if largest > self.samples:
            raise ValueError(f"need 1 <= k <= samples, got k={largest}, samples={self.samples}")
        return self


class TrackingSettings(Section):
    """Where metrics go beside metrics.jsonl."""

    to: Annotated[tuple[Literal["tensorboard", "wandb", "trackio"], ...], Field(strict=False)] = (
        Field((), description="trackers of accelerate: tensorboard, wandb, trackio")
    )
    project: str = Field("dph", description="project name shown by the tracker")


class Recipe(Section):
    """A whole run."""

    name: str = Field(
        "run", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", description="name of the run's directory"
    )
    method: Literal["grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js", "dph_js_definition"] = Field(
        "dph_f", description="expands to plain settings, which the recipe may override"
    )
    seed: Count = Field(0, description="of everything random")
    notes: str = Field("", description="free text: where the numbers come from, what was measured")
    model: ModelSettings
    data: DataSettings
    sampling: SamplingSettings = SamplingSettings()
    vllm: VLLMSettings = VLLMSettings()
    presample: PresamplingSettings = PresamplingSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    train: TrainingSettings = TrainingSettings()
    evaluate: EvaluationSettings = EvaluationSettings()
    track: TrackingSettings = TrackingSettings()

    @model_validator(mode="after")
    def _overlong_buffer_is_a_token_or_more(self) -> Self:
        share, limit = self.objective.overlong_buffer, self.sampling.max_tokens
        if share > 0 and round(share * limit) < 1:
            raise ValueError(
                f"objective.overlong_buffer={share} of sampling.max_tokens={limit} is not even one "
                "token; set it to 0 to have no overlong penalty"
            )
        return self

    @property
    def needs_pool(self) -> bool:
        """Whether training reads a pool."""
        return self.objective.rehearses or self.train.problems == "exploration"

"""The settings of ``[train]`` and ``[track]``."""

from typing import Annotated
from pydantic import Field
from dph.recipe.section import Positive, Section
from typing import Annotated, Any, Literal, Self
from pydantic import BeforeValidator, Field, model_validator
from dph.recipe.section import Engine, SharedPrompts
from dph.recipe.section import Count, Positive, Section


# The settings of ``[trl]`` and ``[verl]``: how the engines beside our own are started.

Override = Annotated[str, Field(pattern=r"^[+~]{0,2}[A-Za-z_][\w.@/-]*(=.*)?$")]
"""One of Hydra's: ``key=value``, ``+key=value``, ``++key=value`` or ``~key``."""


class TRLSettings(Section):
    """How TRL is started, for train.engine = "trl"."""

    processes: Positive = Field(
        1, description="processes that train together, one a GPU, started by accelerate"
    )


class VerlSettings(Section):
    """How verl is started, for train.engine = "verl"."""

    nodes: Positive = Field(1, description="machines of the Ray cluster")
    gpus: Positive = Field(1, description="GPUs of each machine")
    address: str | None = Field(
        None,
        min_length=1,
        description="Ray cluster to join, host:port or auto; default: Ray is started on this "
        "machine",
    )
    rollout: str = Field(
        "vllm", min_length=1, description="what draws in verl's training and pre-sampling"
    )
    overrides: Annotated[tuple[Override, ...], Field(strict=False)] = Field(
        (), description="more of verl's own settings, as Hydra overrides; they win"
    )


def _kept(value: Any) -> Any:
    if value in ("all", "none") or (type(value) is int and value > 0):
        return value
    raise ValueError(f"should be 'all', 'none' or a number of problems above 0, got {value!r}")


KeptSamples = Annotated[Literal["all", "none"] | int, BeforeValidator(_kept)]


class TrainingSettings(Section):
    """The loop, the optimizer and the checkpoints."""

    engine: Engine = Field(
        "own", description="who trains: own (this package's loop, one device), trl or verl"
    )
    problems: Literal["all", "exploration"] = Field(
        "all", description="which problems are explored: all, or those that pre-sampling left open"
    )
    steps: Positive = Field(100, description="rollouts; each is followed by its optimizer steps")
    problems_per_step: Count = Field(
        32, description="problems a rollout; 0: none, only stored answers are learnt from"
    )
    samples_per_problem: int = Field(8, ge=2, description="completions a problem (the group)")
    rehearsal_per_step: Positive = Field(
        32, description="stored samples a rollout, when the method rehearses"
    )
    minibatches: Positive = Field(2, description="optimizer steps an epoch")
    epochs: Positive = Field(1, description="passes over a rollout")
    learning_rate: float = Field(1e-6, gt=0, description="of AdamW")
    final_rate: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the learning rate left at the last step, down to which it falls "
        "in a straight line",
    )
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
    shared_prompts: SharedPrompts = Field(
        "auto",
        description="compute once what rows begin with alike: where it is faster, or as said",
    )
    old_logprobs: Literal["auto", "sampler", "recompute"] = Field(
        "auto",
        description="old log-probs: the sampler's (exact in float32), or one more forward pass",
    )
    checkpoint_every: Positive = Field(10, description="steps between checkpoints")
    keep_checkpoints: Positive = Field(1, description="checkpoints kept")
    keep_samples: KeptSamples = Field(
        4, description="answers kept to be read: those of so many problems a step, all, or none"
    )
    keep_samples_mb: Positive = Field(
        256, description="megabytes that kept answers may take; the oldest steps go first"
    )

    @model_validator(mode="after")
    def _batches_fit(self) -> Self:
        if self.problems_per_step and self.minibatches > self.problems_per_step:
            raise ValueError(
                "need minibatches <= problems_per_step, got "
                f"minibatches={self.minibatches}, problems_per_step={self.problems_per_step}"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must lie in [0, 1), got {self.betas}")
        return self


class TrackingSettings(Section):
    """Where metrics go beside metrics.jsonl."""

    to: Annotated[tuple[Literal["tensorboard", "wandb", "trackio"], ...], Field(strict=False)] = (
        Field((), description="trackers of accelerate: tensorboard, wandb, trackio")
    )
    project: str = Field("dph", description="project name shown by the tracker")
    answers: int = Field(
        256,
        ge=0,
        description="answers of each evaluated set in the tables of wandb and trackio; 0: none",
    )

"""The settings of ``[objective]``."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dph.settings.section import Count, Section


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

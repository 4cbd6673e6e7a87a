"""The settings of ``DPHTrainer``: those of ``trl.GRPOConfig`` and what rehearsal adds."""

import logging
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from dph.engines.engine_objective import engine_objective
from dph.engines.trl.terms import DEFINITION, apply_terms
from dph.errors import SettingsError
from dph.recipe import ObjectiveSettings
from dph.recipe.objective import REHEARSAL, SHORTHAND
from dph.recipe.places import POOL

logger = logging.getLogger(__name__)

_BESIDE = (*SHORTHAND, "dynamic_sampling")
"""Fields of ``DPHConfig`` that are keys of the objective."""


def _short(name: str) -> dict[str, str]:
    return {"help": f"short for objective.{'.'.join(SHORTHAND[name])}"}


@dataclass
class DPHConfig(GRPOConfig):  # type: ignore[misc]
    """``trl.GRPOConfig`` with a pool and the objective of a recipe.

    The loss is TRL's own plus, for every anchor, its weight times the mean of its divergence over
    the tokens of its stored answers (all processes and micro-steps of an optimizer step together).
    What a recipe's ``[objective]`` says of the other terms becomes TRL's settings (``terms``).

    Args:
        objective: The section ``[objective]`` of a recipe: a table, JSON text, or the path of a
            recipe. Once the configuration is made, the settings that came of it.
        method: A named method of the recipes; what ``objective`` and the short names say wins.
        pool: Directory that ``dph presample`` left behind, for anchors that name no other pool.
        rehearsal_per_step: Stored answers an optimizer step, over all processes, for anchors that
            do not say ``per_step``.
        divergence, eta, ...: The short names of the objective, as in a recipe. With neither
            ``objective`` nor ``method``, divergence is forward_kl and eta 0.01; eta = 0 is GRPO.
        dynamic_sampling: Refused, with the name of an engine that can.
        disable_dropout: As in TRL, but True by default: the same weights must give ratio 1.

    Raises:
        SettingsError: a value is out of range, TRL cannot do what is asked, or one of its own
            fields says something else.
    """

    objective: dict[str, Any] | str | ObjectiveSettings | None = field(
        default=None, metadata={"help": "[objective] of a recipe: JSON text, or a recipe's path"}
    )
    method: str | None = field(default=None, metadata={"help": "a named method of the recipes"})
    pool: str = field(default="", metadata={"help": "directory of a pool (dph presample)"})
    rehearsal_per_step: int = field(
        default=32,
        metadata={"help": "stored answers per optimizer step, over all processes"},
    )
    divergence: str | None = field(default=None, metadata=_short("divergence"))
    eta: float | None = field(default=None, metadata=_short("eta"))
    alpha: float | None = field(default=None, metadata=_short("alpha"))
    forward_kl_form: str | None = field(default=None, metadata=_short("forward_kl_form"))
    js_definition: bool | None = field(default=None, metadata={"help": "refused: TRL cannot"})
    advantage_scale: str | None = field(default=None, metadata=_short("advantage_scale"))
    clip_low: float | None = field(default=None, metadata=_short("clip_low"))
    clip_high: float | None = field(default=None, metadata=_short("clip_high"))
    kl_coefficient: float | None = field(default=None, metadata=_short("kl_coefficient"))
    kl_estimator: str | None = field(default=None, metadata=_short("kl_estimator"))
    dynamic_sampling: bool | None = field(default=None, metadata={"help": "refused: TRL cannot"})
    disable_dropout: bool = field(
        default=True,
        metadata={"help": "ratios between two forwards of the same weights must be 1"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.js_definition:
            raise SettingsError(f"DPHConfig cannot have js_definition=True: {DEFINITION}")
        self.objective = settings = self._read_objective()
        apply_terms(self, settings)
        if not settings.rehearses:
            return
        self._require_pool(settings)
        if not isinstance(self.rehearsal_per_step, int) or self.rehearsal_per_step < 1:
            raise SettingsError(
                f"rehearsal_per_step must be a whole number of at least 1, got "
                f"{self.rehearsal_per_step!r}"
            )
        if self.fp16:
            raise SettingsError(
                "rehearsal compares log-probs of float32 or bfloat16 forwards, got fp16=True: "
                "use bf16=True, or neither"
            )
        self._warn_of_saves_inside_a_rollout()

    def _read_objective(self) -> ObjectiveSettings:
        given = self.objective
        if isinstance(given, ObjectiveSettings):
            given = given.model_dump(exclude_unset=True, exclude_none=True)
        try:
            return engine_objective(
                given, method=self.method, beside={n: getattr(self, n) for n in _BESIDE}
            )
        except SettingsError as error:
            raise SettingsError(f"DPHConfig: {error}") from error

    def _require_pool(self, settings: ObjectiveSettings) -> None:
        for name, anchor in settings.active_anchors.items():
            if anchor.samples == POOL and not self.pool:
                short = name == REHEARSAL
                what = "eta" if short else f"objective.anchors.{name}.weight"
                raise SettingsError(
                    f"{what}={anchor.weight} needs a pool: DPHConfig(pool=<directory>)"
                )

    def to_dict(self) -> dict[str, Any]:
        """As in transformers: what is saved and what trackers are told."""
        found: dict[str, Any] = super().to_dict()
        return {**found, "objective": self.terms.model_dump(mode="json", exclude_unset=True)}

    @property
    def terms(self) -> ObjectiveSettings:
        """The objective that all engines share, complete."""
        assert isinstance(self.objective, ObjectiveSettings)
        return self.objective

    def _warn_of_saves_inside_a_rollout(self) -> None:
        per_rollout = self.steps_per_rollout
        if self.save_strategy == "steps" and not (self.save_steps / per_rollout).is_integer():
            logger.warning(
                "save_steps=%s is not a multiple of the %g optimizer steps of a rollout: some "
                "checkpoints will be refused when a run resumes",
                self.save_steps,
                per_rollout,
            )

    @property
    def precision(self) -> str:
        """The dtype of the training forward, as a pool's manifest names it."""
        return "bfloat16" if self.bf16 else "float32"

    @property
    def steps_per_rollout(self) -> float:
        """Optimizer steps that share one rollout, before old samples are replaced."""
        micro_steps = self.steps_per_generation * self.num_iterations
        return float(micro_steps / self.gradient_accumulation_steps)

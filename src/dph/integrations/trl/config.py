"""The settings of ``DPHTrainer``: those of ``trl.GRPOConfig`` and what rehearsal adds."""

import logging
from dataclasses import dataclass, field

from pydantic import ValidationError
from trl import GRPOConfig

from dph.errors import SettingsError
from dph.settings import ObjectiveSettings

logger = logging.getLogger(__name__)

_REFUSED = {
    "dynamic_sampling": (
        "TRL trains on the groups that it has drawn and cannot draw more for a step; "
        "`dph train` (objective.dynamic_sampling, method dapo) and verl (filter_groups) can"
    ),
    "js_definition": (
        "the definition form needs the initial policy's log-probs of every new sample in the loss, "
        "which TRL gives to its own KL term only; `dph train` (method dph_js_definition) can. "
        "Its stored half alone is no divergence; divergence='jensen_shannon' is one"
    ),
}
"""What a recipe may ask for and TRL cannot do, and who can."""


@dataclass
class DPHConfig(GRPOConfig):  # type: ignore[misc]
    """``trl.GRPOConfig`` with a pool and the rehearsal term.

    The loss is TRL's own plus ``eta`` times the mean of f(pi / pi_ref) over the tokens of
    ``rehearsal_per_step`` stored answers (all processes and micro-steps of an optimizer step
    together). Names and meanings are those of a recipe's ``[objective]``.

    Args:
        pool: Directory that ``dph presample`` left behind; needed unless ``eta`` is 0.
        divergence: forward_kl, jensen_shannon, alpha or reverse_kl.
        eta: Weight of the rehearsal term; 0 is GRPO.
        rehearsal_per_step: Stored answers an optimizer step, over all processes.
        alpha: alpha of the alpha divergence, between 0 and 1 (1: forward KL).
        forward_kl_form: k3 or nll.
        dynamic_sampling: Refused, with the name of an engine that can.
        js_definition: Refused, with the name of an engine that can.
        disable_dropout: As in TRL, but True by default: the same weights must give ratio 1.

    Raises:
        SettingsError: a value is out of range, or TRL cannot do what is asked.
    """

    pool: str = field(default="", metadata={"help": "directory of a pool (dph presample)"})
    divergence: str = field(
        default="forward_kl",
        metadata={"help": "forward_kl, jensen_shannon, alpha or reverse_kl, on stored answers"},
    )
    eta: float = field(default=0.01, metadata={"help": "weight of the rehearsal term"})
    rehearsal_per_step: int = field(
        default=32,
        metadata={"help": "stored answers an optimizer step, over all processes"},
    )
    alpha: float = field(default=0.5, metadata={"help": "alpha of the alpha divergence"})
    forward_kl_form: str = field(default="k3", metadata={"help": "k3 or nll"})
    dynamic_sampling: bool = field(default=False, metadata={"help": "refused: TRL cannot"})
    js_definition: bool = field(default=False, metadata={"help": "refused: TRL cannot"})
    disable_dropout: bool = field(
        default=True,
        metadata={"help": "ratios between two forwards of the same weights must be 1"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, reason in _REFUSED.items():
            if getattr(self, name):
                raise SettingsError(f"DPHConfig cannot have {name}=True: {reason}")
        if not self.objective.rehearses:
            return
        if not self.pool:
            raise SettingsError(f"eta={self.eta} needs a pool: DPHConfig(pool=<directory>)")
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

    def _warn_of_saves_inside_a_rollout(self) -> None:
        per_rollout = self.steps_per_rollout
        if self.save_strategy == "steps" and not (self.save_steps / per_rollout).is_integer():
            logger.warning(
                "save_steps=%s is no multiple of the %g optimizer steps of a rollout: some "
                "checkpoints will be refused when a run resumes",
                self.save_steps,
                per_rollout,
            )

    @property
    def objective(self) -> ObjectiveSettings:
        """The rehearsal part as the settings that every engine shares.

        Raises:
            SettingsError: a value is out of range.
        """
        values = {
            "divergence": self.divergence,
            "eta": self.eta,
            "alpha": self.alpha,
            "forward_kl_form": self.forward_kl_form,
        }
        try:
            return ObjectiveSettings.model_validate(values, strict=False)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            where = f"{key}: " if key else ""
            raise SettingsError(
                f"DPHConfig: {where}{first['msg'].removeprefix('Value error, ')}, "
                f"got {values.get(key)!r}"
            ) from error

    @property
    def precision(self) -> str:
        """The dtype of the training forward, as a pool's manifest names it."""
        return "bfloat16" if self.bf16 else "float32"

    @property
    def steps_per_rollout(self) -> float:
        """Optimizer steps that share one rollout, before old samples are replaced."""
        micro_steps = self.steps_per_generation * self.num_iterations
        return float(micro_steps / self.gradient_accumulation_steps)

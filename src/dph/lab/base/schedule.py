"""The learning rate of a base model: warm-up, constant, then exponential annealing (WSD)."""

from dataclasses import dataclass

from dph.errors import SettingsError


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

    Raises:
        SettingsError: a number of steps is negative, or ``final`` is not in (0, 1].

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

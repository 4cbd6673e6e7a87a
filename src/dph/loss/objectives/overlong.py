"""Soft punishment of answers that come close to the length limit."""

from jaxtyping import Float, Int
from torch import Tensor

from dph.errors import SettingsError


def overlong_penalty(
    lengths: Int[Tensor, "rows"], *, max_tokens: int, buffer: int, penalty: float = 1.0
) -> Float[Tensor, "rows"]:
    """Amount to add to the reward: 0 for short answers, down to ``-penalty`` at the limit.

    Equation: with s = max_tokens - buffer (DAPO, arXiv:2503.14476, equation 13):
    0 for length <= s; penalty (s - length) / buffer up to max_tokens; -penalty above.
    Units: lengths, ``max_tokens`` and ``buffer`` in tokens.

    Raises:
        SettingsError: not 1 <= buffer <= max_tokens, or ``penalty`` is not finite and >= 0.

    >>> import torch
    >>> overlong_penalty(torch.tensor([6, 9, 12]), max_tokens=10, buffer=4).tolist()
    [0.0, -0.75, -1.0]
    """
    if not 1 <= buffer <= max_tokens:
        raise SettingsError(
            f"the overlong buffer must lie in [1, max_tokens], got {buffer=}, {max_tokens=}"
        )
    if not 0 <= penalty < float("inf"):
        raise SettingsError(f"the overlong penalty must be finite and at least 0, got {penalty}")
    start = max_tokens - buffer
    return penalty * ((start - lengths).float() / buffer).clamp(-1.0, 0.0)

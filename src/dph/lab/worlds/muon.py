"""Muon in float32: torch's own works in bfloat16 and one matrix at a time, slow on a CPU."""

from collections.abc import Iterable

import torch
from torch import Tensor

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration (Jordan et al., 2024, Muon)."""
ITERATIONS = 5


def orthogonalize(matrices: Tensor) -> Tensor:
    """Push the singular values of each wide matrix of a stack towards 1 (roughly 0.7 to 1.2)."""
    a, b, c = NEWTON_SCHULZ
    x: Tensor = matrices / (matrices.flatten(1).norm(dim=1).view(-1, 1, 1) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon:
    """Orthogonalised momentum for weight matrices (Jordan et al., 2024), batched by shape.

    A parameter is a matrix, or a stack of matrices that are orthogonalised each by itself.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        learning_rate: float,
        momentum: float = 0.95,
        weight_decay: float = 0.02,
    ) -> None:
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self._groups: dict[tuple[int, ...], list[Tensor]] = {}
        for parameter in parameters:
            self._groups.setdefault(tuple(parameter.shape[-2:]), []).append(parameter)
        self._buffers = {
            shape: torch.zeros(sum(p.numel() for p in group) // (shape[0] * shape[1]), *shape)
            for shape, group in self._groups.items()
        }

    @torch.no_grad()
    def step(self, scale: float = 1.0) -> None:
        """Update every matrix from its gradient, at ``scale`` times the learning rate."""
        rate = self.learning_rate * scale
        for (rows, columns), group in self._groups.items():
            gradients = torch.cat(
                [p.grad.reshape(-1, rows, columns) for p in group if p.grad is not None]
            )
            buffer = self._buffers[rows, columns].mul_(self.momentum).add_(gradients)
            update = gradients.add_(buffer, alpha=self.momentum)
            update = orthogonalize(update.mT).mT if rows > columns else orthogonalize(update)
            size = rate * max(1.0, rows / columns) ** 0.5
            directions = torch.split(update, [p.numel() // (rows * columns) for p in group])
            for parameter, direction in zip(group, directions, strict=True):
                direction = direction.view_as(parameter)
                parameter.mul_(1 - rate * self.weight_decay).add_(direction, alpha=-size)

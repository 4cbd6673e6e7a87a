import pytest
import torch

from lab.worlds.small_model import Muon, orthogonalize


def test_orthogonalized_matrices_have_singular_values_near_one():
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalize(torch.randn(4, 8, 24)))
    assert values.min() > 0.6
    assert values.max() < 1.3


@pytest.mark.parametrize("shape", [(4, 10), (10, 4), (6, 6)])
def test_the_first_step_moves_by_the_stated_amount(shape):
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(shape))
    before, gradient = parameter.detach().clone(), torch.randn(shape)
    parameter.grad = gradient.clone()
    Muon([parameter], learning_rate=0.1, weight_decay=0.5).step(scale=0.2)
    wide = gradient.T if shape[0] > shape[1] else gradient
    direction = orthogonalize(wide[None])[0]
    direction = direction.T if shape[0] > shape[1] else direction
    size = 0.02 * max(1.0, shape[0] / shape[1]) ** 0.5
    torch.testing.assert_close(parameter.detach(), before * (1 - 0.02 * 0.5) - size * direction)


def test_matrices_of_one_shape_are_updated_as_if_alone():
    torch.manual_seed(0)
    start = [torch.randn(5, 7) for _ in range(3)]
    gradients = [[torch.randn(5, 7) for _ in range(3)] for _ in range(4)]

    def run(which):
        parameters = [torch.nn.Parameter(start[i].clone()) for i in which]
        muon = Muon(parameters, learning_rate=0.1)
        for step in gradients:
            for parameter, i in zip(parameters, which, strict=True):
                parameter.grad = step[i].clone()
            muon.step()
        return [parameter.detach() for parameter in parameters]

    together = run([0, 1, 2])
    for i in range(3):
        torch.testing.assert_close(together[i], run([i])[0])

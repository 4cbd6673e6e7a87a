import math

import pytest
import torch

from dph.model.forward.over_vocabulary import bucket_logprobs


def table(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def test_the_last_bucket_holds_all_that_is_not_named():
    found = bucket_logprobs(table([0.5, 0.25, 0.15, 0.1]), torch.tensor([[2, 0]]))
    torch.testing.assert_close(found.exp(), torch.tensor([[0.15, 0.5, 0.35]], dtype=torch.float64))


def test_an_id_that_stands_twice_counts_once_in_the_rest():
    found = bucket_logprobs(table([0.5, 0.25, 0.15, 0.1]), torch.tensor([[1, 1, 1]]))
    assert found.exp()[0].tolist() == pytest.approx([0.25, 0.25, 0.25, 0.75])


def test_a_rest_far_below_rounding_is_as_accurate_as_the_rest():
    logits = torch.zeros(1, 6)
    logits[0, 0] = 60.0  # the rest: 5 tokens of exp(-60) each
    found = bucket_logprobs(logits.log_softmax(-1), torch.tensor([[0]]))
    assert float(found[0, 1]) == pytest.approx(math.log(5) - 60, abs=1e-5)
    assert 1 - float(found[0, 0].exp()) == 0  # what a difference would have said


def test_with_every_token_named_nothing_is_left_and_the_gradient_is_finite():
    logits = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    found = bucket_logprobs(logits.log_softmax(-1), torch.arange(3).expand(2, 3))
    assert found[:, 3].tolist() == [-math.inf] * 2
    found[:, :3].sum().backward()
    assert logits.grad.isfinite().all()


def test_rows_with_and_without_a_rest_may_stand_together():
    logits = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    ids = torch.tensor([[0, 1, 2], [0, 0, 0]])
    found = bucket_logprobs(logits.log_softmax(-1), ids)
    found[1].sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[1].abs().sum() > 0


def test_the_gradient_is_that_of_finite_differences():
    ids = torch.tensor([[0, 3], [4, 4], [2, 1]])

    def of(logits):
        return bucket_logprobs(logits.log_softmax(-1), ids)

    assert torch.autograd.gradcheck(of, torch.randn(3, 5, dtype=torch.float64, requires_grad=True))

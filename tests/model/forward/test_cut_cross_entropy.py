"""Its CUDA kernels do not run on a CPU: a stand-in of the package has its signature."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from torch import nn

from dph.model.forward import selected_logprobs as module
from dph.model.forward.selected_logprobs import (
    cut_logprobs,
    selected_logprobs,
    takes_cut_cross_entropy,
)


@pytest.fixture
def calls(monkeypatch):
    """The package, computing the plain form and noting how it was called."""
    noted = []

    def linear_cross_entropy(
        e, c, targets, ignore_index=-100, softcap=None, reduction="mean", shift=False, filter_eps=""
    ):
        noted.append((e.dtype, c.dtype, reduction, filter_eps))
        assert (ignore_index, softcap, shift) == (-100, None, False)
        return nn.functional.cross_entropy(e.float() @ c.float().T, targets, reduction=reduction)

    package = ModuleType("cut_cross_entropy")
    package.linear_cross_entropy = linear_cross_entropy
    package.__spec__ = ModuleSpec("cut_cross_entropy", None)
    monkeypatch.setitem(sys.modules, "cut_cross_entropy", package)
    return noted


@pytest.fixture
def problem():
    torch.manual_seed(0)
    return torch.randn(9, 8), nn.Linear(8, 21, bias=False), torch.randint(21, (9,))


def plain(hidden, head, targets, temperature):
    return torch.log_softmax(head(hidden) / temperature, -1).gather(1, targets[:, None])[:, 0]


def test_log_probs_are_those_of_the_plain_form_without_filtered_gradients(calls, problem):
    hidden, head, targets = problem
    found = cut_logprobs(hidden, head.weight, targets, 0.7, dtype=torch.bfloat16)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, plain(hidden, head, targets, 0.7), rtol=0, atol=0.05)
    assert calls == [(torch.bfloat16, torch.bfloat16, "none", None)]


def test_it_is_for_cuda_and_sixteen_bits(calls):
    assert takes_cut_cross_entropy("cuda", torch.bfloat16)
    assert not takes_cut_cross_entropy("cuda", torch.float32)
    assert not takes_cut_cross_entropy("cpu", torch.bfloat16)
    assert not calls


def test_without_the_package_it_is_not_taken(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert not takes_cut_cross_entropy("cuda", torch.bfloat16)


def test_it_is_used_where_it_can_be_and_the_blocks_elsewhere(calls, problem, monkeypatch):
    hidden, head, targets = problem
    expected = plain(hidden, head, targets, 1.0)
    selected_logprobs(hidden, head, targets, 1.0)
    assert not calls
    monkeypatch.setattr(module, "takes_cut_cross_entropy", lambda *_: True)
    torch.testing.assert_close(selected_logprobs(hidden, head, targets, 1.0), expected)
    assert len(calls) == 1
    biased = nn.Linear(8, 21)  # it takes no bias
    selected_logprobs(hidden, biased, targets, 1.0)
    assert len(calls) == 1

"""Gradients of the shared forward against transformers and PEFT as they come."""

import pytest
import torch

from adapted_models import KINDS, adapted_model, plain_peft
from dph.model.forward.logprobs import completion_scores
from dph.model.forward.sharing import packing_support
from dph.model.policies import save_policy

# PEFT's wrapper, which we do not use, asks transformers by an older name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
PROMPTS = [[3, 4, 5, 6, 7, 8]] * 3 + [[9, 10, 11]]
COMPLETIONS = [[12, 13, 1], [12, 14, 15, 1], [16, 1], [17, 18, 1]]
FAMILIES = ("llama_gqa", "qwen2", "qwen3", "mistral", "gemma2", "gemma3", "gpt2", "granite")


def shared(model, *, weights):
    scores = completion_scores(
        model, PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0, sharing="always"
    )
    return (scores.logprobs * weights[:, None]).sum()


def one_by_one(model, *, weights):
    """The same sum by the model's own forward, each row alone."""
    total = 0.0
    for prompt, completion, weight in zip(PROMPTS, COMPLETIONS, weights, strict=True):
        ids = torch.tensor([[*prompt, *completion]])
        table = torch.log_softmax(model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float(), -1)
        total = total + weight * table.gather(1, torch.tensor(completion)[:, None]).sum()
    return total


def gradients(model, value):
    names, parameters = zip(
        *((n, p) for n, p in model.named_parameters() if p.requires_grad), strict=True
    )
    return dict(zip(names, torch.autograd.grad(value, parameters), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_its_gradient_is_that_of_plain_transformers_with_peft(tmp_path, family, kind):
    model = adapted_model(family, kind)
    save_policy(model, tmp_path)
    plain = plain_peft(tmp_path, family)
    weights = torch.tensor([1.0, -0.5, 2.0, 0.25])
    assert packing_support(model).refusal is None
    ours, theirs = shared(model, weights=weights), one_by_one(plain, weights=weights)
    assert torch.allclose(ours, theirs, rtol=1e-5)
    mine, others = gradients(model, ours), gradients(plain, theirs)
    assert {f"base_model.model.{name}" for name in mine} == others.keys()
    largest = max(float(grad.abs().max()) for grad in others.values())
    for name, grad in mine.items():
        gap = float((grad - others[f"base_model.model.{name}"]).abs().max())
        assert gap <= 1e-5 * largest, name

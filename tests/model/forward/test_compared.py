import math

import pytest
import torch

from dph.model.forward.scorer import compared_tokens
from tiny_models import build_model

PROMPTS, COMPLETIONS = [(3, 4, 5), (3, 4, 6), (7, 8)], [(9, 10), (11,), (12, 13, 14)]


def table_of(model, prompt, completion, temperature):
    logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0].double()
    rows = slice(len(prompt) - 1, len(prompt) + len(completion) - 1)
    return (logits / temperature).log_softmax(-1)[rows].detach()


@pytest.mark.parametrize("sharing", ["always", "never"])
def test_every_number_is_the_sum_over_the_whole_vocabulary(sharing):
    policy, reference = build_model("llama"), build_model("llama")
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(0.05 * torch.sin(torch.arange(parameter.numel())).view_as(parameter))
    found = compared_tokens(
        policy,
        reference,
        PROMPTS,
        COMPLETIONS,
        temperature=0.7,
        pad_id=0,
        token_budget=9,  # several micro-batches, in another order than the rows
        dtype="float32",
        sharing=sharing,
    )
    for prompt, completion, row in zip(PROMPTS, COMPLETIONS, found, strict=True):
        p, q = (table_of(m, prompt, completion, 0.7) for m in (policy, reference))
        chosen = torch.tensor(completion)[:, None]
        expected = {
            "logprobs": p.gather(1, chosen)[:, 0],
            "ref_logprobs": q.gather(1, chosen)[:, 0],
            "entropy": -(p.exp() * p).sum(-1),
            "reverse_kl": (p.exp() * (p - q)).sum(-1),
            "forward_kl": (q.exp() * (q - p)).sum(-1),
        }
        assert len(row) == len(completion)
        for name, values in expected.items():
            # float32 forwards: logits round by 1e-6 each
            assert getattr(row, name) == pytest.approx(values.tolist(), abs=2e-5), name
        assert min(row.reverse_kl) > 1e-3


def test_a_model_is_at_distance_nothing_from_itself():
    model = build_model("llama")
    (row,) = compared_tokens(
        model,
        build_model("llama"),
        PROMPTS[:1],
        COMPLETIONS[:1],
        temperature=1.0,
        pad_id=0,
        token_budget=64,
        dtype="float32",
    )
    assert row.reverse_kl == row.forward_kl == (0.0, 0.0)
    assert row.logprobs == row.ref_logprobs
    vocabulary = model.config.vocab_size
    assert all(0 < value <= math.log(vocabulary) for value in row.entropy)

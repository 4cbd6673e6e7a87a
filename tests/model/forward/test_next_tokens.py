import pytest
import torch

from dph.model.forward.over_vocabulary import next_tokens
from tiny_models import PLAIN_FAMILIES, build_model

PROMPTS, COMPLETIONS = [(3, 4, 5), (3, 4, 6), (7, 8)], [(9, 10), (11,), (12, 13, 14)]


def by_hand(model, temperature):
    rows = []
    for prompt, completion in zip(PROMPTS, COMPLETIONS, strict=True):
        logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0]
        table = (logits / temperature).log_softmax(-1)
        rows.append(table[len(prompt) - 1 : len(prompt) + len(completion) - 1])
    return torch.cat(rows).detach()


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("sharing", ["always", "never"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_blocks_are_the_models_own_distributions(family, sharing, temperature):
    assert family in PLAIN_FAMILIES
    model = build_model(family)
    found = next_tokens(
        model, PROMPTS, COMPLETIONS, temperature=temperature, pad_id=0, sharing=sharing
    )
    expected = by_hand(model, temperature)
    blocks = torch.cat([found.logprobs(slice(0, 2)), found.logprobs(slice(2, 6))])
    torch.testing.assert_close(blocks, expected, rtol=0, atol=1e-5)
    assert not blocks.requires_grad


def test_hidden_states_are_kept_where_the_head_is_all_there_is_to_logits():
    small = next_tokens(build_model("llama"), PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0)
    assert (small.head is not None, small.states.shape) == (True, (6, 32))
    capped = next_tokens(build_model("gemma2"), PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0)
    assert (capped.head, capped.states.shape) == (None, (6, 48))


def test_the_mode_of_the_model_is_left_as_it_was():
    model = build_model("llama").train()
    next_tokens(model, PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0)
    assert model.training

"""Scores of completions, whole distributions, and two models compared token by token."""

import math
from dataclasses import replace

import pytest
import torch

from dph.model.forward.scorer import AnswerScorer, next_tokens
from scored_completions import score_completions
from tiny_models import build_model

PROMPTS, COMPLETIONS = [(3, 4, 5), (3, 4, 6), (7, 8)], [(9, 10), (11,), (12, 13, 14)]
NUMBERS = {"pad_id": 0, "temperature": 0.7, "dtype": "float32", "token_budget": 64}


def table_of(model, prompt, completion, temperature):
    """Log-probs of all tokens at each of a completion's, by the model's own forward."""
    logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0].double()
    rows = slice(len(prompt) - 1, len(prompt) + len(completion) - 1)
    return (logits / temperature).log_softmax(-1)[rows].detach()


@pytest.mark.parametrize("sharing", ["auto", "always", "never"])
@pytest.mark.parametrize("budget", [1, 5, 99])
def test_scores_come_in_the_order_given_however_rows_are_cut(sharing, budget):
    model, (prompts, completions) = build_model(), ([*PROMPTS, (6,)], [*COMPLETIONS, ()])
    options = NUMBERS | {"token_budget": budget}
    found = score_completions(model, prompts, completions, **options, sharing=sharing)
    for prompt, completion, row in zip(prompts, completions, found, strict=True):
        table = table_of(model, prompt, completion, 0.7)
        expected = table.gather(1, torch.tensor(completion, dtype=torch.long)[:, None])[:, 0]
        assert row == pytest.approx(expected.tolist(), abs=1e-5)


def test_every_module_is_in_its_own_mode_afterwards():
    model = build_model().train()
    model.lm_head.eval()
    assert score_completions(model, [], [], **NUMBERS) == []
    score_completions(model, PROMPTS, COMPLETIONS, **NUMBERS)
    assert (model.training, model.lm_head.training) == (True, False)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("sharing", ["always", "never"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_next_tokens_are_the_models_own_distributions(family, sharing, temperature):
    model = build_model(family).train()
    found = next_tokens(
        model, PROMPTS, COMPLETIONS, temperature=temperature, pad_id=0, sharing=sharing
    )
    assert model.training
    # Hidden states are kept where the head is all there is to logits.
    hidden = (True, (6, 32)) if family == "llama" else (False, (6, 48))
    assert (found.head is not None, found.states.shape) == hidden
    rows = zip(PROMPTS, COMPLETIONS, strict=True)
    expected = torch.cat([table_of(model, *row, temperature) for row in rows]).float()
    blocks = torch.cat([found.logprobs(slice(0, 2)), found.logprobs(slice(2, 6))])
    torch.testing.assert_close(blocks, expected, rtol=0, atol=1e-5)
    assert not blocks.requires_grad


@pytest.mark.parametrize("sharing", ["always", "never"])
def test_every_number_is_the_sum_over_the_whole_vocabulary(sharing):
    policy, reference = build_model("llama"), build_model("llama")
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(0.05 * torch.sin(torch.arange(parameter.numel())).view_as(parameter))
    # several micro-batches, in another order than the rows
    scorer = AnswerScorer(**(NUMBERS | {"token_budget": 9}), sharing=sharing)
    found = scorer.compared(policy, reference, PROMPTS, COMPLETIONS)
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
    scorer = AnswerScorer(**NUMBERS)
    (row,) = scorer.compared(model, build_model("llama"), PROMPTS[:1], COMPLETIONS[:1])
    assert row.reverse_kl == row.forward_kl == (0.0, 0.0)
    assert row.logprobs == row.ref_logprobs
    vocabulary = model.config.vocab_size
    assert all(0 < value <= math.log(vocabulary) for value in row.entropy)


def test_a_scorer_scores_at_another_temperature_where_one_is_named():
    model, scorer = build_model(), AnswerScorer(**NUMBERS)
    other = replace(scorer, temperature=1.0).logprobs(model, PROMPTS, COMPLETIONS)
    assert scorer.logprobs(model, PROMPTS, COMPLETIONS, temperature=1.0) == other
    assert scorer.logprobs(model, PROMPTS, COMPLETIONS) != other

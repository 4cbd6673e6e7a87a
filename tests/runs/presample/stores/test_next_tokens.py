import random

import pytest
import torch

from dph.model.forward.scorer import AnswerScorer
from dph.runs.presample.stores.making import KeptTokens, kept_distributions
from tiny_models import build_model

_RANDOM = random.Random(0)
EXAMPLES = [_RANDOM.randrange(2, 48) for _ in range(40)]
"""What stands before every question."""
PROMPTS = [[*EXAMPLES, *ids] for ids in [(3, 4, 5), (3, 4, 5), (6, 7), (6, 7)]]
COMPLETIONS = [[9, 10, 11], [9, 12], [13], [14, 15, 16, 17]]
WANTED = [
    KeptTokens(3, 2, (16, 40)),  # not in order of rows
    KeptTokens(0, 0, (9,)),
    KeptTokens(0, 1, (10, 12)),
    KeptTokens(3, 0, (14,)),
    KeptTokens(2, 0, (13,)),
]


def kept(model, *, top=4, token_budget=4096, temperature=0.7, wanted=WANTED, sharing="auto"):
    return kept_distributions(
        model,
        PROMPTS,
        COMPLETIONS,
        wanted,
        top=top,
        scorer=AnswerScorer(
            temperature=temperature,
            pad_id=0,
            token_budget=token_budget,
            dtype="float32",
            sharing=sharing,
        ),
    )


def by_hand(model, place, temperature):
    """Log-probs of the vocabulary at a place: its row by itself, in the model's own forward."""
    row = [*PROMPTS[place.row], *COMPLETIONS[place.row]]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([row])).logits[0]
    at = len(PROMPTS[place.row]) + place.position - 1
    return (logits[at].double() / temperature).log_softmax(-1)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("token_budget", [1, 60, 4096])
@pytest.mark.parametrize("sharing", ["always", "never"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_distributions_are_those_of_each_row_by_itself(family, token_budget, sharing, temperature):
    model = build_model(family)
    found = kept(model, token_budget=token_budget, sharing=sharing, temperature=temperature)
    for place, one in zip(WANTED, found, strict=True):
        expected = by_hand(model, place, temperature)
        assert set(one.token_ids) == {*expected.topk(4).indices.tolist(), *place.token_ids}
        ids = torch.tensor(one.token_ids)
        numbers = torch.tensor(one.logprobs, dtype=torch.float64)
        torch.testing.assert_close(numbers, expected[ids], rtol=0, atol=1e-5)
        expected[ids] = -torch.inf
        assert one.log_tail == pytest.approx(float(expected.logsumexp(-1)), abs=1e-5)


def test_without_a_top_all_tokens_are_kept_and_nothing_is_left():
    (found,) = kept(build_model("llama"), top=None, wanted=WANTED[:1])
    assert sorted(found.token_ids) == list(range(48))
    assert found.log_tail == -torch.inf


def test_what_rows_begin_with_alike_is_run_once_and_rows_that_nobody_asks_for_never():
    model = build_model("llama")
    kept(model, sharing="always")  # what is asked of the model once
    seen = []
    handle = model.base_model.register_forward_pre_hook(
        lambda _module, _arguments, options: seen.append(options["input_ids"].numel()),
        with_kwargs=True,
    )
    kept(model, sharing="always")
    handle.remove()
    # The examples; and of rows 0, 2 and 3 what follows, without the last token of each.
    assert sum(seen) == 40 + (3 + 2) + (2 + 0) + (2 + 3)

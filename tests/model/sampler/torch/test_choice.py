import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.model.sampler.torch import decoding
from dph.model.sampler.torch.decoding import choose, nucleus

logits_strategy = st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=20)


@settings(deadline=None)  # the first assert_close imports for a second
@given(logits_strategy, st.floats(0, 1, exclude_max=True), st.sampled_from([0.3, 0.9, 1.0]))
def test_log_probs_are_those_of_the_full_vocabulary_at_the_temperature(logits, uniform, top_p):
    row = torch.tensor([logits])
    tokens, logprobs = choose(
        row, torch.tensor([uniform]).clamp(max=1 - 2**-20), temperature=0.7, top_p=top_p
    )
    expected = torch.log_softmax(row / 0.7, dim=-1)[0, tokens[0]]
    torch.testing.assert_close(logprobs[0], expected)


def test_top_p_never_leaves_the_nucleus_and_renormalises_inside_it():
    probabilities = torch.tensor([0.5, 0.2, 0.2, 0.1], dtype=torch.float64)
    draws = 7000
    even = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
    table = probabilities.log().float().expand(draws, -1)
    tokens, logprobs = choose(table, even, temperature=1.0, top_p=0.65)
    # 0.5 + 0.2 reach 0.65; the tie goes to the smaller id.
    assert np.abs(np.bincount(tokens, minlength=4) - np.array([5000, 2000, 0, 0])).max() <= 1
    torch.testing.assert_close(logprobs[-1].exp(), torch.tensor(0.2))


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("vocabulary", [1, 63, 64, 65, 128, 1000])
def test_choosing_by_blocks_is_choosing_from_one_long_cumulative_sum(vocabulary, temperature):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 3 * torch.randn(200, vocabulary, generator=generator)
    uniforms = torch.rand(200, dtype=torch.float64, generator=generator)
    cumulative = torch.softmax(logits.double() / temperature, dim=-1).cumsum(dim=-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    tokens = choose(logits, uniforms, temperature=temperature).tokens[:, None]
    # Float32 moves a boundary between two tokens by a few times 1e-7.
    assert (cumulative.gather(1, tokens) > target - 1e-6).all()
    before = torch.nn.functional.pad(cumulative, (1, 0)).gather(1, tokens)
    assert (before <= target + 1e-6).all()
    exact = torch.searchsorted(cumulative, target, right=True)
    assert (tokens != exact).sum() <= 1


def test_a_token_of_probability_zero_is_never_chosen_not_even_at_the_ends():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(3, -1)
    ends = torch.tensor([0.0, 0.5, 1 - 2**-40], dtype=torch.float64)
    assert choose(logits, ends, temperature=1.0).tokens.tolist() == [1, 3, 3]


def test_greedy_takes_the_first_largest_logit_and_its_log_prob_at_the_temperature():
    logits = torch.tensor([[0.0, 2.0, 2.0], [5.0, 1.0, 0.0]])
    tokens, logprobs = choose(logits, torch.zeros(2), temperature=2.0, top_p=0.1, greedy=True)
    assert tokens.tolist() == [1, 0]
    torch.testing.assert_close(logprobs, torch.log_softmax(logits / 2, dim=-1)[[0, 1], tokens])


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_nan_logits_give_a_nan_log_prob_and_a_token_of_the_vocabulary(top_p):
    logits = torch.full((1, 4), torch.nan)
    tokens, logprobs = choose(logits, torch.tensor([0.5]), temperature=1.0, top_p=top_p)
    assert 0 <= tokens[0] < 4
    assert logprobs.isnan().all()


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=40),
    st.floats(0.05, 1.0),
    st.sampled_from([1, 5, 256]),
)
def test_the_nucleus_equals_a_plain_walk_down_the_ranking_also_with_ties(weights, top_p, prefix):
    # Sixteenths add up without rounding. Of the second row more is needed than of the first.
    rows = [weights, [1] * len(weights)]
    expected = []
    for row in rows:
        kept, reached = [0.0] * len(row), 0.0
        for token in sorted(range(len(row)), key=lambda token, row=row: (-row[token], token)):
            if reached < top_p:
                kept[token] = 1.0
            reached += row[token] / 16
        expected.append(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_PREFIX", prefix)  # values that are looked at first
        found = nucleus(torch.tensor(rows, dtype=torch.float32) / 16, top_p=top_p)
    assert found.tolist() == expected


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_nucleus_is_the_same_on_a_gpu():
    probabilities = torch.softmax(torch.randn(16, 300), dim=-1)
    there = nucleus(probabilities.cuda(), top_p=0.9).cpu()
    assert torch.equal(there, nucleus(probabilities, top_p=0.9))

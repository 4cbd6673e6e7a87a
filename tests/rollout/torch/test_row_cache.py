import pytest
import torch

from dph.rollout.torch.row_cache import RowCache
from dph.rollout.torch.waves import Wave, WaveRow

LENGTHS, OWNERS = (9, 7, 5), [0, 0, 1, 2, 2, 2]


def cache_of(*, capacity=6, in_place=False):
    wave = Wave(
        prompts=tuple((0,) * length for length in LENGTHS),
        rows=tuple(WaveRow(0, i, prompt) for i, prompt in enumerate(OWNERS)),
    )
    return RowCache(wave, capacity=capacity, device=torch.device("cpu"), in_place=in_place)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_rows_attend_as_with_lists_of_their_own(in_place, softcap):
    torch.manual_seed(0)
    cache = cache_of(in_place=in_place)
    prompts = torch.randn(2, 3, 2, 64, 4)  # padded, with numbers that nobody may see
    for places in (torch.tensor([2]), torch.tensor([1, 0])):
        cache.store_prompts(0, places, prompts[0, places], prompts[1, places])
    rows = [prompts[:, owner, :, : LENGTHS[owner]] for owner in OWNERS]
    for kept in [None, [0, 2, 3, 5], None, [3], None]:
        new, query = torch.randn(2, len(rows), 2, 1, 4), torch.randn(len(rows), 4, 4)
        found = cache.attend(
            0, query, new[0, :, :, 0], new[1, :, :, 0], scaling=0.5, softcap=softcap
        )
        cache.advance()
        rows = [torch.cat([row, new[:, i]], dim=2) for i, row in enumerate(rows)]
        for i, (key, value) in enumerate(rows):
            key, value = key.repeat_interleave(2, dim=0), value.repeat_interleave(2, dim=0)
            scores = query[i][:, None] @ key.transpose(1, 2) * 0.5
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            expected = (scores.softmax(dim=-1) @ value)[:, 0]
            torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-6)
        if kept:
            cache.select(torch.tensor(kept))
            rows = [rows[i] for i in kept]
        assert cache.positions.tolist() == [row.shape[2] for row in rows]


def test_memory_is_the_width_and_the_capacity_of_each_row():
    cache = cache_of()
    assert cache.tokens == 6 * (32 + 6)
    cache.store_prompts(0, torch.arange(3), torch.zeros(3, 2, 64, 4), torch.zeros(3, 2, 64, 4))
    cache.select(torch.tensor([1, 4]))
    assert cache.tokens == 2 * (32 + 6)
    assert cache.layers[0].keys.shape == (2, 2, 38, 4)
    assert cache.selections == 1

import pytest
import torch

from dph.model.forward.kernels import Scoring
from dph.model.sampler.torch.shared_forward import SharedCache, attend_prompts, prompt_table
from dph.model.sampler.torch.waves import Wave, WaveRow


class Together:
    """Plain caches, one list of keys and values a row, beside a shared one."""

    def __init__(self, lengths, owners, *, capacity=6):
        torch.manual_seed(0)
        self.wave = Wave(
            prompts=tuple((0,) * length for length in lengths),
            rows=tuple(WaveRow(0, i, prompt) for i, prompt in enumerate(owners)),
        )
        self.cache = SharedCache(self.wave, capacity=capacity, device=torch.device("cpu"))
        prompts = torch.randn(2, len(lengths), 2, max(lengths), 4)
        for places in (torch.tensor([2]), torch.tensor([0, 1, 3, 4])):
            self.cache.store_prompts(0, places, *prompts[:, places].transpose(2, 3))
        self.rows = [prompts[:, owner, :, : lengths[owner]] for owner in owners]

    def step(self):
        """Append a token to every row both ways; the two results."""
        new = torch.randn(2, len(self.rows), 2, 1, 4)
        query = torch.randn(len(self.rows), 4, 4)
        found = self.cache.attend(
            0, query, new[0, :, :, 0], new[1, :, :, 0], scaling=0.5, softcap=None
        )
        self.cache.used += 1
        self.cache.positions += 1
        self.rows = [torch.cat([row, new[:, i]], dim=2) for i, row in enumerate(self.rows)]
        expected = []
        for i, (key, value) in enumerate(self.rows):
            key, value = key.repeat_interleave(2, dim=0), value.repeat_interleave(2, dim=0)
            scores = query[i][:, None] @ key.transpose(1, 2) * 0.5
            expected.append((scores.softmax(dim=-1) @ value)[:, 0])
        return found, torch.stack(expected)

    def keep(self, kept):
        self.cache.select(torch.tensor(kept))
        self.rows = [self.rows[i] for i in kept]


@pytest.mark.parametrize("lengths", [(5, 5, 5, 5, 5), (9, 7, 6, 5, 5)])
def test_rows_attend_as_with_caches_of_their_own_through_any_series_of_steps(lengths):
    both = Together(lengths, [0, 0, 1, 2, 2, 3, 4, 4])
    for keep in [None, None, [0, 1, 3, 4, 5, 7], [2, 4, 5], None, [1]]:
        found, expected = both.step()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
        if keep:
            both.keep(keep)
            assert both.cache.rows == len(keep)
            own = [lengths[[0, 0, 1, 2, 2, 3, 4, 4][i]] for i in range(8)]
            assert set(both.cache.positions.tolist()) <= {n + both.cache.used for n in own}


def test_memory_is_each_prompt_once_and_the_capacity_of_each_row():
    both = Together((9, 7, 6, 5, 5), [0, 0, 1, 2, 2, 3, 4, 4])
    assert both.cache.tokens == 5 * 64 + 8 * 6
    both.step()
    both.keep([2, 3, 4, 5])
    assert both.cache.tokens == 5 * 64 + 4 * 6  # three of five prompts are still needed
    both.keep([0, 3])
    assert both.cache.tokens == 2 * 64 + 2 * 6
    layer = both.cache.layers[0]
    assert layer.prompt_keys.shape == (2, 2, 64, 4)
    assert layer.keys.shape == layer.values.shape == (2, 2, 6, 4)


def oracle(query, key, value, *, scaling, softcap=None, mask=None):
    """Attention by its definition in float64, each key-value head repeated for its queries."""
    repeats = query.shape[1] // key.shape[1]
    query, key, value = query.double(), key.double(), value.double()
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    scores = query @ key.transpose(2, 3) * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


VARIANTS = [
    (torch.float32, None, 8),  # flash
    (torch.float32, 2.0, 8),  # softcap
    (torch.float32, None, 5),  # values of another size
    (torch.float64, None, 8),  # no kernel for the type
]


@pytest.mark.parametrize(("dtype", "softcap", "size"), VARIANTS)
@pytest.mark.parametrize("owners", [[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 3], [2]])
def test_rows_read_their_own_prompt_and_no_padding(dtype, softcap, size, owners):
    torch.manual_seed(0)
    lengths = torch.tensor([3, 7, 5, 1])[: max(owners) + 1]
    prompts = len(lengths)
    shapes = (len(owners), 2, 3, 8), (prompts, 2, 7, 8), (prompts, 2, 7, size)
    query, key, value = (torch.randn(*shape, dtype=dtype) for shape in shapes)
    real = torch.arange(7) < lengths[:, None]
    bias = torch.zeros(real.shape).masked_fill(~real, -torch.inf)[:, None, None]
    owner = torch.tensor(owners)
    table, scoring = prompt_table(owner, prompts=prompts), Scoring(0.3, softcap, bias=bias)
    part = attend_prompts(query, key, value, table, scoring)
    mask = real[owner][:, None, None]
    expected = oracle(query, key[owner], value[owner], scaling=0.3, softcap=softcap, mask=mask)
    torch.testing.assert_close(part.out.double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("repeats", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [8, 64])
def test_a_row_has_the_same_bits_beside_any_number_of_others(repeats, size):
    torch.manual_seed(0)
    query, key, value = (torch.randn(n, 2, m, size) for n, m in ((12, repeats), (1, 40), (1, 40)))

    def mixed(rows):
        table = prompt_table(torch.zeros(len(rows), dtype=torch.long), prompts=1)
        return attend_prompts(query[rows], key, value, table, Scoring(0.3))

    all_rows = mixed(list(range(12)))
    for count in range(1, 12):
        rows = list(range(12 - count, 12))
        for found, whole in zip(mixed(rows), all_rows, strict=True):
            assert torch.equal(found, whole[rows]), count

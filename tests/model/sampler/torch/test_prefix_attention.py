import pytest
import torch

from dph.model.attention.kernels import Scoring
from dph.model.sampler.torch.shared_cache import attend_prompts, prompt_table


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


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


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
    query = randn(len(owners), 2, 3, 8, dtype=dtype)
    key, value = randn(prompts, 2, 7, 8, dtype=dtype), randn(prompts, 2, 7, size, dtype=dtype)
    real = torch.arange(7) < lengths[:, None]
    bias = torch.zeros(real.shape).masked_fill(~real, -torch.inf)[:, None, None]
    owner = torch.tensor(owners)
    part = attend_prompts(
        query,
        key,
        value,
        prompt_table(owner, prompts=prompts),
        Scoring(0.3, softcap, bias=bias),
    )
    mask = real[owner][:, None, None]
    expected = oracle(query, key[owner], value[owner], scaling=0.3, softcap=softcap, mask=mask)
    torch.testing.assert_close(part.out.double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("repeats", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [8, 64])
def test_a_row_has_the_same_bits_beside_any_number_of_others(repeats, size):
    torch.manual_seed(0)
    query = randn(12, 2, repeats, size)
    key, value = randn(1, 2, 40, size), randn(1, 2, 40, size)

    def mixed(rows):
        table = prompt_table(torch.zeros(len(rows), dtype=torch.long), prompts=1)
        return attend_prompts(query[rows], key, value, table, Scoring(0.3))

    all_rows = mixed(list(range(12)))
    for count in range(1, 12):
        rows = list(range(12 - count, 12))
        for found, whole in zip(mixed(rows), all_rows, strict=True):
            assert torch.equal(found, whole[rows]), count

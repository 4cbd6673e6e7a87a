import pytest
import torch

from dph.model.sampler.torch.prefill_attention import PrefillAttention, PrefillPart, prefill_parts
from dph.model.sampler.torch.shared_cache import SharedCache, attend_causally
from dph.model.sampler.torch.waves import Wave, WaveRow

CPU = torch.device("cpu")
STEM = tuple(range(1000, 1150))
PROMPTS = ((*STEM, *range(40)), (*STEM, 3, 9), STEM[:70], (5,) * 130, (*STEM[:100], 8))
MIXING = {"scaling": 0.4, "softcap": None}


def cache_of(prompts):
    rows = tuple(WaveRow(0, i, i) for i in range(len(prompts)))
    return SharedCache(Wave(prompts, rows), capacity=3, device=CPU)


def states():
    """Query, key and value of a token: functions of its prompt up to itself, as in a model."""

    def of(prompt, position, size):
        seed = hash((prompt[: position + 1], size)) % 2**31
        return torch.randn(size, 2, 8, generator=torch.Generator().manual_seed(seed))

    def table(start, end, prompt, size):
        return torch.stack(
            [of(prompt, i, size)[-1 if size == 1 else 0 :] for i in range(start, end)]
        )

    return table


def run(part: PrefillPart, prompts):
    """Keys and values of whole prompts, and the mixed values of every token that is run."""
    make = states()
    query, key, value = (
        torch.cat(
            [
                make(start, end, prompts[place], size).flatten(1, 2)
                for place, start, end in zip(part.places, part.starts, part.ends, strict=True)
            ]
        )
        for size in (4, 2, 3)
    )
    value = value[:, :4]
    attention = PrefillAttention(part, CPU)
    keys, values = attention.whole_prompts(0, key, value)
    return attention, keys, values, attention(query, keys, values, **MIXING)


@pytest.mark.parametrize("least", [16, 10**6])
def test_sums_are_those_of_each_prompt_by_itself_to_the_bit(least):
    [part] = prefill_parts(PROMPTS, cache_of(PROMPTS), (), least_shared=least, most_tokens=10**6)
    attention, keys, values, mixed = run(part, PROMPTS)
    make, done = states(), 0
    for row, place in enumerate(part.places):
        prompt, start = PROMPTS[place], part.starts[row]
        query, key, value = (make(0, len(prompt), prompt, s).flatten(1, 2) for s in (4, 2, 3))
        assert torch.equal(keys[row, :, : len(prompt)].transpose(0, 1), key)
        assert torch.equal(values[row, :, : len(prompt)].transpose(0, 1), value[:, :4])
        padded = [
            torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 192 - len(prompt))).transpose(0, 1)[None]
            for x in (query, key, value[:, :4])
        ]
        alone = attend_causally(*padded, **MIXING)[0].transpose(0, 1)
        own = len(prompt) - start
        assert torch.equal(mixed[done : done + own], alone[start : len(prompt)])
        done += own
        assert int(attention.last[row]) == done - 1
    assert done == part.run == len(mixed)


def test_what_is_borrowed_is_what_the_other_cache_keeps():
    lender = cache_of(PROMPTS)
    [part] = prefill_parts(PROMPTS, lender, (), least_shared=16, most_tokens=10**6)
    attention, keys, values, mixed = run(part, PROMPTS)
    lender.store_prompts(0, attention.places, keys, values)
    prompts = ((*STEM, *range(38), 99), (5,) * 131)
    [part] = prefill_parts(
        prompts, cache_of(prompts), (lender,), least_shared=16, most_tokens=10**6
    )
    assert part.run == 1 + 1
    _, keys, values, mixed = run(part, prompts)
    [whole] = prefill_parts(prompts, cache_of(prompts), (), least_shared=10**6, most_tokens=10**6)
    _, expected_keys, expected_values, expected = run(whole, prompts)
    for row, prompt in enumerate(prompts[i] for i in part.places):
        assert torch.equal(keys[row, :, : len(prompt)], expected_keys[row, :, : len(prompt)])
        assert torch.equal(values[row, :, : len(prompt)], expected_values[row, :, : len(prompt)])
    ends = torch.tensor(whole.ends).cumsum(0) - 1
    assert torch.equal(mixed, expected[ends])

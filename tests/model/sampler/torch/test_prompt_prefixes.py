import torch

from dph.model.sampler.torch.prefill_attention import prefill_parts
from dph.model.sampler.torch.shared_cache import SharedCache
from dph.model.sampler.torch.waves import Wave, WaveRow

CPU = torch.device("cpu")
SCHEMA = tuple(range(100, 170))
PROMPTS = ((*SCHEMA, 1, 2, 3), (*SCHEMA, 1, 5), SCHEMA, (7,) * 70)


def cache_of(prompts):
    rows = tuple(WaveRow(0, i, i) for i in range(len(prompts)))
    return SharedCache(Wave(prompts, rows), capacity=3, device=CPU)


def planned(prompts, living=(), *, least=16, most=10**6):
    cache = cache_of(prompts)
    return cache, list(prefill_parts(prompts, cache, living, least_shared=least, most_tokens=most))


def tokens_of(part, place):
    """A prompt as its sources put it together."""
    lent = [
        token for loan in part.loans for token in loan.cache.prompts[loan.prompt][: loan.tokens]
    ]
    known = torch.tensor([*part.ids, *lent])
    row = part.places.index(place)
    return tuple(known[part.sources(CPU)[row, : part.ends[row]]].tolist())


def test_every_prompt_is_put_together_of_what_is_run_once():
    _, [part] = planned(PROMPTS)
    assert part.run == 70 + 70 + 3 + 1
    assert part.places == [3, 2, 0, 1]
    assert part.starts == [0, 0, 70, 71]
    assert not part.loans
    assert [tokens_of(part, place) for place in range(4)] == list(PROMPTS)
    assert part.sources(CPU).shape == (4, 128)


def test_the_last_token_of_every_prompt_is_run():
    _, [part] = planned((SCHEMA,), [cache_of(PROMPTS)])
    assert (part.run, part.starts) == (1, [69])
    assert tokens_of(part, 0) == SCHEMA


def test_fewer_common_tokens_are_run_again():
    _, [part] = planned(PROMPTS, least=71)
    assert part.starts == [0, 0, 0, 71]
    _, [part] = planned(PROMPTS, least=72)
    assert part.run == sum(map(len, PROMPTS))


def test_a_part_borrows_from_the_part_before_it_and_from_living_waves():
    cache, parts = planned(PROMPTS, most=75)
    assert [part.run for part in parts] == [70, 74]
    assert sum(part.run for part in parts) == 144
    cache, parts = planned(PROMPTS, most=72)
    assert [part.run for part in parts] == [70, 70, 4]
    assert [loan[1:] for loan in parts[2].loans] == [(2, 70)]
    assert parts[2].loans[0].cache is cache
    living = [cache_of(((9,) * 80,)), cache_of(PROMPTS)]
    prompts = ((*SCHEMA, 1, 2, 8), (7,) * 90)
    _, [part] = planned(prompts, living)
    assert [loan[1:] for loan in part.loans] == [(3, 70), (0, 72)]
    assert part.run == 1 + 20
    assert [tokens_of(part, place) for place in range(2)] == list(prompts)

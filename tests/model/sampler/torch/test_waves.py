from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import SettingsError
from dph.model.sampler.base import SampleRequest
from dph.model.sampler.torch.waves import Room, Waiting, padded_width

MAX_TOKENS = 3
PLENTY = 10**6

requests_strategy = st.lists(
    st.builds(
        lambda prompt, samples, first: (tuple(prompt), samples, first),
        st.lists(st.integers(0, 2), min_size=1, max_size=4),
        st.integers(0, 9),
        st.integers(0, 5),
    ),
    max_size=8,
).map(
    lambda rows: [
        SampleRequest(problem_id=str(i), prompt_ids=p, samples=n, first_index=f)
        for i, (p, n, f) in enumerate(rows)
    ]
)


def waves_of(requests, *, rows, tokens=PLENTY, shared=True):
    """The waves, where each starts after the one before it is done."""
    limit = Room(rows=rows, tokens=tokens)
    waiting = Waiting(requests, limit=limit, max_tokens=MAX_TOKENS, shared=shared)
    waves = []
    while waiting:
        waves.append(waiting.next_wave(limit))
    assert waiting.next_wave(limit) is None
    return waves


@given(requests_strategy, st.integers(1, 12), st.integers(67, 300), st.booleans())
def test_every_sample_is_in_exactly_one_wave_within_the_limits(requests, limit, tokens, shared):
    waves = waves_of(requests, rows=limit, tokens=tokens, shared=shared)
    drawn = Counter((row.request, row.sample_index) for wave in waves for row in wave.rows)
    wanted = Counter(
        (position, request.first_index + k)
        for position, request in enumerate(requests)
        for k in range(request.samples)
    )
    assert drawn == wanted
    for wave in waves:
        assert {row.prompt for row in wave.rows} == set(range(len(wave.prompts)))
        assert [row.prompt for row in wave.rows] == sorted(row.prompt for row in wave.rows)
        for row in wave.rows:
            assert wave.prompts[row.prompt] == requests[row.request].prompt_ids
        prompts, count, width = len(wave.prompts), len(wave.rows), len(wave.prompts[0])
        held = (prompts if shared else count) * padded_width(width) + count * MAX_TOKENS
        assert 1 <= count <= limit
        assert held <= tokens
        assert all(len(prompt) <= width <= 2 * len(prompt) for prompt in wave.prompts)


@given(requests_strategy, st.integers(1, 12))
def test_a_prompt_is_prefilled_at_most_once_more_than_its_rows_need(requests, rows):
    waves = waves_of(requests, rows=rows)
    counts = Counter(request.prompt_ids for request in requests for _ in range(request.samples))
    prefills = Counter(prompt for wave in waves for prompt in wave.prompts)
    for wave in waves:
        assert len(set(wave.prompts)) == len(wave.prompts)
    for prompt, count in counts.items():
        assert prefills[prompt] <= 1 + -(-count // rows)
        if 2 * count <= rows:
            assert prefills[prompt] == 1


def test_prompts_that_are_half_alike_come_with_the_longest_of_them():
    schemas = {name: tuple(range(100 * k, 100 * k + 80)) for k, name in enumerate("abc")}
    wanted = [("a", 90), ("b", 95), ("c", 99), ("b", 81), ("a", 92), ("c", 85)]
    prompts = [
        (*schemas[name], *range(1000 * i, 1000 * i + length - 80))
        for i, (name, length) in enumerate(wanted)
    ]
    requests = [
        SampleRequest(problem_id=str(i), prompt_ids=ids, samples=2) for i, ids in enumerate(prompts)
    ]
    waves = waves_of(requests, rows=99)
    assert [[len(prompt) for prompt in wave.prompts] for wave in waves] == [
        [99, 85, 95, 81, 92, 90]
    ]
    met = [len(p) for wave in waves_of(requests, rows=4) for p in wave.prompts]
    assert met == [99, 85, 95, 81, 92, 90]


def test_a_small_group_waits_for_room_as_a_whole_and_a_large_one_takes_what_is_free():
    limit = Room(rows=8, tokens=PLENTY)
    for samples, taken in [(4, None), (5, 3)]:
        request = SampleRequest(problem_id="p", prompt_ids=(1,), samples=samples)
        waiting = Waiting([request], limit=limit, max_tokens=MAX_TOKENS)
        wave = waiting.next_wave(Room(rows=3, tokens=PLENTY))
        assert (wave and len(wave.rows)) == taken


def test_a_row_that_cannot_fit_is_refused_before_anything_is_drawn():
    request = SampleRequest(problem_id="p", prompt_ids=(1,) * 5, samples=1)
    message = r"5 tokens \(padded to 64\) and max_tokens = 3 do not fit into cache_tokens = 66"
    with pytest.raises(SettingsError, match=message):
        Waiting([request], limit=Room(rows=1, tokens=66), max_tokens=MAX_TOKENS)
    Waiting([request], limit=Room(rows=1, tokens=67), max_tokens=MAX_TOKENS)

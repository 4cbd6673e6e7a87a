import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dph.rollout.base import SampleRequest
from dph.rollout.waves import plan_waves

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


@given(requests_strategy, st.integers(1, 12))
def test_every_sample_is_in_exactly_one_wave_with_its_own_prompt(requests, max_rows):
    waves = plan_waves(requests, max_rows=max_rows)
    drawn = Counter((row.request, row.sample_index) for wave in waves for row in wave.rows)
    wanted = Counter(
        (position, request.first_index + k)
        for position, request in enumerate(requests)
        for k in range(request.samples)
    )
    assert drawn == wanted
    for wave in waves:
        assert 1 <= len(wave.rows) <= max_rows
        assert {row.prompt for row in wave.rows} == set(range(len(wave.prompts)))
        for row in wave.rows:
            assert wave.prompts[row.prompt] == requests[row.request].prompt_ids


@given(requests_strategy, st.integers(1, 12))
def test_a_prompt_is_prefilled_once_a_wave_and_in_as_few_waves_as_its_rows_need(requests, max_rows):
    waves = plan_waves(requests, max_rows=max_rows)
    rows = Counter(request.prompt_ids for request in requests for _ in range(request.samples))
    prefills = Counter(prompt for wave in waves for prompt in wave.prompts)
    for wave in waves:
        assert len(set(wave.prompts)) == len(wave.prompts)
    for prompt, count in rows.items():
        assert prefills[prompt] == -(-count // max_rows)


def test_thirty_two_prompts_of_eight_samples_fill_one_wave_of_256_rows():
    requests = [SampleRequest(problem_id=str(i), prompt_ids=(i,), samples=8) for i in range(33)]
    assert [len(wave.rows) for wave in plan_waves(requests, max_rows=256)] == [256, 8]


def test_longer_prompts_come_first():
    lengths = [3, 1, 4, 1, 5, 9, 2, 6]
    random.Random(0).shuffle(lengths)
    requests = [
        SampleRequest(problem_id=str(n), prompt_ids=(0,) * n, samples=1) for n in set(lengths)
    ]
    waves = plan_waves(requests, max_rows=3)
    flat = [len(prompt) for wave in waves for prompt in wave.prompts]
    assert flat == sorted(flat, reverse=True)

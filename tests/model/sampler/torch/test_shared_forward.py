import pytest
import torch

from dph.model.forward.kernels import Scoring
from dph.model.sampler.torch import shared_forward as module
from dph.model.sampler.torch.prefill import prefill_parts
from dph.model.sampler.torch.shared_forward import (
    LEAST_ROWS,
    SharedCache,
    SharedForward,
    attend_prompts,
    prompt_table,
)
from dph.model.sampler.torch.waves import Wave, WaveRow
from tiny_models import build_model


def wave_of(*prompts, samples=1):
    rows = tuple(WaveRow(0, i, p) for p in range(len(prompts)) for i in range(samples))
    return Wave(prompts=prompts, rows=rows)


@torch.no_grad()
def last_logits(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0, -1]


@pytest.mark.parametrize("family", ["llama_gqa", "qwen2", "gpt2", "gemma2"])
def test_waves_of_different_ages_in_one_forward_equal_each_row_alone(family):
    model = build_model(family)
    forward = SharedForward(model, max_tokens=9)
    waves = [wave_of((3, 4, 5), (6, 7), samples=2), wave_of((9, 8, 7, 6), (1, 2, 3, 4))]
    rows = [[list(wave.prompts[row.prompt]) for row in wave.rows] for wave in waves]
    with torch.no_grad(), forward.active():
        caches, checks = [], []
        for step in range(5):
            if step in (0, 2):
                cache, logits = forward.start(waves[len(caches)])
                checks.append((logits, [row.copy() for row in rows[len(caches)]]))
                caches.append(cache)
            flat = [row for group in rows[: len(caches)] for row in group]
            tokens = [3 + (7 * i + step) % 45 for i in range(len(flat))]
            for row, token in zip(flat, tokens, strict=True):
                row.append(token)
            logits = forward.step(caches, torch.tensor(tokens))
            checks.append((logits, [row.copy() for row in flat]))
    for logits, ids in checks:
        expected = torch.stack([last_logits(model, row) for row in ids])
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


def test_prompts_are_prefilled_in_parts_and_only_their_last_positions_reach_the_head(monkeypatch):
    model, sizes, shapes = build_model("llama"), [], []
    model.lm_head.register_forward_hook(lambda _m, _i, out: shapes.append(tuple(out.shape)))
    model.register_forward_pre_hook(
        lambda _m, _a, options: sizes.append(options["input_ids"].numel()), with_kwargs=True
    )
    forward = SharedForward(model, max_tokens=3)
    with torch.no_grad(), forward.active():
        forward.start(wave_of((3, 4, 5), (6, 7)))
    assert (sizes.pop(), shapes) == (LEAST_ROWS, [(1, LEAST_ROWS, 48)])
    monkeypatch.setattr(module, "PREFILL_TOKENS", 6)
    monkeypatch.setattr(module, "LEAST_ROWS", 1)
    prompts = [(3,) * 8, (4,) * 4, (5,) * 2, (6,)]
    with torch.no_grad(), forward.active():
        cache, logits = forward.start(wave_of(*prompts))
        logits = forward.step([cache], torch.tensor([9, 9, 9, 9]))
    assert sizes == [8, 6, 1, 4]
    expected = torch.stack([last_logits(model, [*prompt, 9]) for prompt in prompts])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


CPU = torch.device("cpu")
SCHEMA = tuple(range(100, 170))
PROMPTS = ((*SCHEMA, 1, 2, 3), (*SCHEMA, 1, 5), (9,) * 30, SCHEMA, (7,) * 70)


def cache_of(prompts):
    return SharedCache(wave_of(*prompts), capacity=3, device=CPU)


def planned(prompts, living=(), *, most=10**6, least=16):
    cache = cache_of(prompts)
    parts = prefill_parts(prompts, cache, living, device=CPU, most_tokens=most, least_saved=least)
    return cache, list(parts)


def run(parts):
    return [len(part.rows.ids) for part in parts]


def put_together(part, width=None):
    """Prompts as their places among the run and the borrowed tokens say."""
    lent = [t for loan in part.loans for t in loan.lender.prompts[loan.prompt][: loan.tokens]]
    known = torch.tensor([*part.rows.ids.tolist(), *lent])
    ids, lengths = known[part.tokens(width)], list(map(len, part.prompts))
    if width is None:
        return [tuple(x.tolist()) for x in torch.split(ids, lengths)]
    return [tuple(row[:n].tolist()) for row, n in zip(ids.view(-1, width), lengths, strict=True)]


def require_whole(prompts, parts):
    places = [place for part in parts for place in part.places]
    assert sorted(places) == list(range(len(prompts)))
    for part in parts:
        wanted = [tuple(prompts[place]) for place in part.places]
        assert put_together(part) == put_together(part, width=128) == wanted
        assert part.rows.ids[part.last].tolist() == [ids[-1] for ids in wanted]


def test_every_prompt_is_put_together_of_what_is_run_once():
    _, parts = planned(PROMPTS)
    assert run(parts) == [70 + 3 + 2 + 30 + 70]
    assert not parts[0].loans
    require_whole(PROMPTS, parts)


def test_a_part_borrows_from_living_waves_all_but_one_token_of_a_root():
    living = [cache_of([(9,) * 80]), cache_of(PROMPTS)]
    prompts = ((*SCHEMA, 1, 2, 8), (*SCHEMA, 1, 2, 9, 9), (7,) * 90, (9,) * 79, (5,) * 40)
    _, parts = planned(prompts, living)
    [part] = parts
    assert [(loan.prompt, loan.tokens) for loan in part.loans] == [(0, 71), (4, 70), (0, 78)]
    assert part.loans[2].lender is living[0]
    assert run(parts) == [1 + 1 + 2 + 20 + 1 + 40]
    require_whole(prompts, parts)


def test_fewer_common_tokens_are_run_again():
    two = [(*SCHEMA, 1), (*SCHEMA, 2)]
    assert run(planned(two, [cache_of([(*SCHEMA[:15], 3)])])[1]) == [72]
    assert run(planned(two, [cache_of([(*SCHEMA[:16], 3)])])[1]) == [56]
    assert run(planned(two, least=10**6)[1]) == [142]


def test_a_part_borrows_from_the_parts_before_it():
    prompts = [(*SCHEMA, i, i + 1, i + 2) for i in range(8)]
    cache, parts = planned(prompts, most=79)
    assert run(parts)[0] <= 79
    assert len(parts) > 1
    for part in parts[1:]:
        assert [loan.tokens for loan in part.loans] == [69 if len(part.places) > 1 else 70]
        assert part.loans[0].lender is cache
    require_whole(prompts, parts)


@pytest.mark.parametrize("family", ["llama_gqa", "gpt2"])
@pytest.mark.parametrize("most", [60, 10**6])
def test_first_logits_are_those_of_each_prompt_alone(monkeypatch, family, most):
    context = {"n_positions" if family == "gpt2" else "max_position_embeddings": 128}
    model = build_model(family, **context)
    monkeypatch.setattr("dph.model.sampler.torch.shared_forward.CPU_PREFILL_TOKENS", most)
    stem = tuple(3 + i % 40 for i in range(50))
    first = [(*stem, 4, 5), (*stem[:30], 8), (6, 7), (*stem, 4, 5, 6, 7, 8)]
    second = [(*stem, 9), (*stem, 10, 11), (*stem, 4, 5), (*stem[:20], 3, 9, 9), (30,)]
    forward = SharedForward(model, max_tokens=3)
    with torch.no_grad():
        with forward.active():
            cache, logits = forward.start(wave_of(*first))
            _, more = forward.start(wave_of(*second), [cache])
        for ours, prompt in zip([*logits, *more], [*first, *second], strict=True):
            torch.testing.assert_close(ours, last_logits(model, prompt), rtol=0, atol=1e-5)


# The cache.


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

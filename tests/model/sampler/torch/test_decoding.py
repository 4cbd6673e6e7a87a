from contextlib import nullcontext

import pytest
import torch

from dph.model.releases import cache_argument
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.decoding import (
    ADMIT_ABOVE,
    COMPACT_BELOW,
    LOOK_EVERY,
    Decoder,
    RepeatedForward,
    WholeForward,
)
from dph.model.sampler.torch.shared_forward import LEAST_ROWS, SharedForward
from dph.model.sampler.torch.waves import Room, Waiting
from tiny_models import build_model

PROMPTS = [(3, 4, 5), (6, 7), (7, 8, 9, 10)]
ROOMY = Room(rows=1000, tokens=10**6)
FORWARDS = {
    "shared": lambda model, steps: SharedForward(model, max_tokens=steps),
    "grown": lambda model, _: RepeatedForward(model, cache_argument(model)),
    "whole": lambda model, _: WholeForward(model),
}


class Watched:
    """Decodes with a tiny Llama and notes every forward pass, wave and look."""

    def __init__(self, kind, *, stops=(), max_tokens=12, samples=20, limit=ROOMY):
        model = build_model("llama")
        self.tokens, self.rows_at_start, self.held = [], [], []
        model.register_forward_pre_hook(
            lambda _m, _a, options: self.tokens.append(options["input_ids"].numel()),
            with_kwargs=True,
        )
        forward = FORWARDS[kind](model, max_tokens)
        requests = [
            SampleRequest(problem_id=str(i), prompt_ids=ids, samples=samples)
            for i, ids in enumerate(PROMPTS)
        ]
        waiting = Waiting(requests, limit=limit, max_tokens=max_tokens, shared=forward.joins)
        decoder = Decoder(
            forward,
            waiting,
            SamplingParameters(max_tokens=max_tokens, stop_token_ids=stops),
            uniforms=self._uniforms,
        )
        self.max_tokens = max_tokens
        self.drawn = []
        self.sizes = []
        with torch.no_grad(), getattr(forward, "active", nullcontext)():
            for rows in decoder.run():
                self.sizes.append(len(rows))
                self.drawn += rows
                self.held.append(sum(cohort.cache.tokens for cohort in decoder.cohorts))

    def _uniforms(self, wave):
        self.rows_at_start.append(len(wave.rows))
        keys = [hash((row.request, row.sample_index)) % 2**31 for row in wave.rows]
        columns = [
            torch.rand(
                self.max_tokens, dtype=torch.float64, generator=torch.Generator().manual_seed(key)
            )
            for key in keys
        ]
        return torch.stack(columns, dim=1)

    def by_key(self):
        return {(d.row.request, d.row.sample_index): (d.token_ids, d.finished) for d in self.drawn}


@pytest.mark.parametrize(("kind", "prefill"), [("shared", LEAST_ROWS), ("grown", 12)])
def test_each_prompt_is_run_once_and_then_one_token_a_row(kind, prefill):
    watched = Watched(kind)
    assert watched.tokens == [prefill] + 11 * [60]
    assert watched.sizes == [60]
    assert all(len(d.token_ids) == 12 and not d.finished for d in watched.drawn)


@pytest.mark.parametrize("kind", ["shared", "grown"])
def test_finished_rows_leave_the_batch_and_decoding_ends_with_the_last_unfinished_row(kind):
    watched = Watched(kind, stops=tuple(range(12)))
    lengths = [len(d.token_ids) for d in watched.drawn]
    for step, rows in enumerate(watched.tokens[1:], start=1):
        live = sum(length > step for length in lengths)
        assert live <= rows <= max(live / COMPACT_BELOW, LEAST_ROWS)
    assert len(watched.drawn) == len(watched.by_key()) == 60
    assert all(d.finished == (d.token_ids[-1] < 12) for d in watched.drawn)
    at_once = Watched(kind, stops=tuple(range(48)))
    assert (len(at_once.tokens), at_once.sizes) == (1, [60])


def test_waiting_rows_start_while_others_go_on():
    stops, limit = tuple(range(10)), Room(rows=24, tokens=10**6)
    whole = Watched("shared", stops=stops)
    joined = Watched("shared", stops=stops, limit=limit)
    apart = Watched("grown", stops=stops, limit=limit)
    anew = Watched("whole", stops=stops, limit=limit)
    assert joined.by_key() == whole.by_key() == apart.by_key() == anew.by_key()
    assert max(joined.tokens) <= 24
    assert len(joined.tokens) < len(apart.tokens)
    assert all(rows >= ADMIT_ABOVE * 24 for rows in joined.rows_at_start[:-1])


@pytest.mark.parametrize("kind", FORWARDS)
def test_the_cache_never_holds_more_than_its_bound(kind):
    tokens = 320
    watched = Watched(kind, stops=(0, 1), limit=Room(rows=1000, tokens=tokens))
    assert len(watched.by_key()) == 60
    assert max(watched.held) <= tokens


@pytest.mark.parametrize("kind", FORWARDS)
def test_looking_for_finished_rows_less_often_changes_no_result(monkeypatch, kind):
    stops = tuple(range(12))
    often = Watched(kind, stops=stops, limit=Room(rows=30, tokens=10**6))
    monkeypatch.setitem(LOOK_EVERY, "cpu", 5)
    seldom = Watched(kind, stops=stops, limit=Room(rows=30, tokens=10**6))
    assert seldom.by_key() == often.by_key()
    assert len(seldom.sizes) < len(often.sizes)

import pytest
import torch

from dph.model.sampler.torch import shared_forward as module
from dph.model.sampler.torch.shared_forward import LEAST_ROWS, SharedForward
from dph.model.sampler.torch.waves import Wave, WaveRow
from tiny_models import build_model


def wave_of(*prompts, samples=2):
    rows = tuple(WaveRow(0, i, p) for p in range(len(prompts)) for i in range(samples))
    return Wave(prompts=prompts, rows=rows)


@torch.no_grad()
def last_logits(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0, -1]


@pytest.mark.parametrize("family", ["llama_gqa", "qwen2", "gpt2", "gemma2"])
def test_waves_of_different_ages_in_one_forward_equal_each_row_alone(family):
    model = build_model(family)
    forward = SharedForward(model, max_tokens=9)
    waves = [wave_of((3, 4, 5), (6, 7)), wave_of((9, 8, 7, 6), (1, 2, 3, 4), samples=1)]
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


def test_prompts_are_prefilled_in_parts_of_bounded_size(monkeypatch):
    model = build_model("llama")
    monkeypatch.setattr(module, "PREFILL_TOKENS", 6)
    monkeypatch.setattr(module, "LEAST_ROWS", 1)
    sizes = []
    model.register_forward_pre_hook(
        lambda _m, _a, options: sizes.append(options["input_ids"].numel()), with_kwargs=True
    )
    prompts = [(3,) * 8, (4,) * 4, (5,) * 2, (6,)]
    forward = SharedForward(model, max_tokens=3)
    with torch.no_grad(), forward.active():
        cache, logits = forward.start(wave_of(*prompts, samples=1))
        logits = forward.step([cache], torch.tensor([9, 9, 9, 9]))
    assert sizes == [8, 6, 1, 4]
    expected = torch.stack([last_logits(model, [*prompt, 9]) for prompt in prompts])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


def test_only_the_last_position_of_each_prompt_reaches_the_head():
    model = build_model("llama")
    shapes = []
    model.lm_head.register_forward_hook(lambda _m, _i, out: shapes.append(tuple(out.shape)))
    forward = SharedForward(model, max_tokens=3)
    with torch.no_grad(), forward.active():
        forward.start(wave_of((3, 4, 5), (6, 7)))
    assert shapes == [(1, LEAST_ROWS, 48)]


def test_a_model_that_passes_no_scaling_gets_the_usual_one():
    assert module._mixing(torch.zeros(1, 1, 1, 16), {}) == {"scaling": 0.25, "softcap": None}

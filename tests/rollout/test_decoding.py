import pytest
import torch

from dph.rollout.base import SampleRequest, SamplingParameters
from dph.rollout.decoding import COMPACT_BELOW, decode
from dph.rollout.waves import plan_waves
from tiny_models import build_model


def decode_and_watch(family, *, stop_token_ids, max_tokens=12, samples=20):
    """Decode one wave; also give the shape of the tokens of every forward, and the progress."""
    model = build_model(family)
    prompts = [(3, 4, 5), (6,), (7, 8, 9, 10)]
    requests = [
        SampleRequest(problem_id=str(i), prompt_ids=ids, samples=samples)
        for i, ids in enumerate(prompts)
    ]
    [wave] = plan_waves(requests, max_rows=1000)
    shapes, progress = [], []
    model.register_forward_pre_hook(
        lambda _m, _a, options: shapes.append(tuple(options["input_ids"].shape)), with_kwargs=True
    )
    uniforms = torch.rand(
        max_tokens, len(wave.rows), dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    parameters = SamplingParameters(max_tokens=max_tokens, stop_token_ids=stop_token_ids)
    with torch.no_grad():
        decoded = decode(model, wave, uniforms, parameters, on_finished=progress.append)
    return decoded, shapes, progress


@pytest.mark.parametrize("family", ["llama", "mistral_window"])
def test_each_prompt_is_run_once_and_then_one_token_a_row(family):
    decoded, shapes, progress = decode_and_watch(family, stop_token_ids=())
    assert shapes == [(3, 4)] + 11 * [(60, 1)]
    assert decoded.tokens.shape == decoded.logprobs.shape == (60, 12)
    assert progress == [60]


@pytest.mark.parametrize("family", ["llama", "mistral_window"])
def test_finished_rows_leave_the_batch(family):
    stops = tuple(range(12))
    decoded, shapes, progress = decode_and_watch(family, stop_token_ids=stops)
    hit = torch.isin(torch.from_numpy(decoded.tokens), torch.tensor(stops))
    live_after = [int((~hit[:, : step + 1].any(dim=1)).sum()) for step in range(12)]
    for live, (rows, _) in zip(live_after, shapes[1:], strict=False):
        assert live <= rows <= live / COMPACT_BELOW
    assert sum(progress) == 60


def test_decoding_ends_with_the_last_unfinished_row():
    _, shapes, progress = decode_and_watch("llama", stop_token_ids=tuple(range(48)))
    assert shapes == [(3, 4)]
    assert progress == [60]

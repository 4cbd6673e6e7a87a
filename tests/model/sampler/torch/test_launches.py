"""What a decoded token launches and waits for on a GPU, counted on a CPU (`counting_device`)."""

from counting_device import CountingDevice
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from lab.benchmarks.launches.ours import TokenCounts, count_tokens
from tiny_models import build_model, build_tokenizer

A_LAYER, BESIDE = 51, 75
"""Kernels, together at most 1,300 of 24 layers. Of a layer: attention 10 with what it writes, norms
12, rotary 10, products and casts 13, the rest 5. Beside them: embedding, head, choice, records."""


def requests(samples: int) -> list[SampleRequest]:
    """Two prompts that begin alike."""
    shared = tuple(range(3, 13))
    return [
        SampleRequest(problem_id=str(i), prompt_ids=(*shared, 20 + i), samples=samples)
        for i in range(2)
    ]


def sampler_of(layers: int) -> TorchSampler:
    """A sampler that knows already what its model can."""
    model = build_model("qwen2", num_hidden_layers=layers, max_position_embeddings=128).to("cuda")
    sampler = TorchSampler(model, build_tokenizer(), dtype="bfloat16")
    sampler.sample(requests(1), SamplingParameters(max_tokens=2, stop_token_ids=()), seed=0)
    return sampler


def counted(*, layers: int, samples: int) -> TokenCounts:
    with CountingDevice() as device:
        # Nothing stops a row.
        return count_tokens(
            device, sampler_of(layers), requests(samples), lengths=(9, 13), stops=()
        )


def test_a_token_is_one_launch_of_so_many_kernels_a_layer_whatever_the_rows():
    one, few, many = (
        counted(layers=layers, samples=samples) for layers, samples in ((1, 2), (2, 2), (2, 20))
    )
    for layers, token in ((1, one), (2, few), (2, many)):
        assert (token.launches, token.waits) == (1, 0)
        assert token.kernels <= BESIDE + A_LAYER * layers
    assert many.kernels == few.kernels
    assert many.prefill.launches == few.prefill.launches
    assert many.prefill.waits == few.prefill.waits


def test_the_host_looks_at_the_rows_every_16_tokens():
    with CountingDevice() as device:
        sampler, waits = sampler_of(1), []
        for tokens in (8, 8 + 64):
            parameters = SamplingParameters(max_tokens=tokens, stop_token_ids=())
            with device.counting(f"{tokens}") as counts:
                sampler.sample(requests(2), parameters, seed=0)
            waits.append(counts.waits)
    looks = 64 // 16
    assert waits[1] - waits[0] <= 2 * looks

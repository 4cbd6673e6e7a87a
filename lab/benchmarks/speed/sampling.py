"""Sampling alone: ours beside transformers' generate, with every prompt repeated as TRL does."""

from collections.abc import Callable
from statistics import fmean

from transformers import PreTrainedModel

from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from lab.benchmarks.speed.flops import forward_flops, groups_of
from lab.benchmarks.speed.machine import matmul_rate
from lab.benchmarks.speed.peer_generate import Generate
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import SAMPLING
from lab.benchmarks.speed.timing import interleaved
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts


def measure(case: str, run: Run) -> list[Row]:
    """Draw all completions of a rollout, again and again with other random numbers."""
    world = run.world(SAMPLING[case])
    model = build_model(world).eval()
    lengths: dict[str, list[int]] = {"ours": [], "generate": []}
    sides = {
        "ours": _ours(world, model, lengths["ours"]),
        "generate": _generate(world, model, lengths["generate"]),
    }
    times = interleaved(sides, repeats=run.repeats)
    groups = groups_of(world.shape.distinct_prompt, lengths["ours"], world.shape.samples)
    flops = forward_flops(world.size, groups) * world.shape.rows / len(lengths["ours"])
    rate = matmul_rate(run.device, run.dtype)
    return [
        make_row(
            "sampling",
            case,
            run,
            shape=str(world.shape),
            ours=times["ours"],
            peer="transformers generate",
            peer_timing=times["generate"],
            ours_mean_length=fmean(lengths["ours"]),
            peer_mean_length=fmean(lengths["generate"]),
            floor_s=flops / rate,
            useful_share=flops / rate / times["ours"].median,
            matmul_gflops=rate / 1e9,
        )
    ]


def _ours(world: World, model: PreTrainedModel, lengths: list[int]) -> Callable[[], None]:
    tokenizer = build_tokenizer(world.size)
    requests = [
        SampleRequest(
            problem_id=str(i),
            prompt_ids=tuple(tokenizer.encode(prompt)),
            samples=world.shape.samples,
        )
        for i, prompt in enumerate(make_prompts(world, world.shape.prompts))
    ]
    parameters = SamplingParameters(
        max_tokens=world.shape.completion, stop_token_ids=world.stop_tokens
    )
    sampler = TorchSampler(model, tokenizer, dtype=world.dtype)
    seeds = iter(range(10**6))

    def draw() -> None:
        drawn = sampler.sample(requests, parameters, seed=next(seeds))
        lengths.extend(len(completion.token_ids) for group in drawn for completion in group)

    return draw


def _generate(world: World, model: PreTrainedModel, lengths: list[int]) -> Callable[[], None]:
    generate = Generate(world, model, build_tokenizer(world.size))
    prompts = make_prompts(world, world.shape.prompts)
    repeated = [prompt for prompt in prompts for _ in range(world.shape.samples)]
    return lambda: lengths.extend(map(len, generate(repeated)))

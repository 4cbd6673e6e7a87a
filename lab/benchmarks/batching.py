"""How often does batching change a sampled token?

    .venv/bin/python -m lab.benchmarks.batching
    .venv/bin/python -m lab.benchmarks.batching --prompts 4

Random numbers belong to (seed, problem, sample index), so a token can change only where the
rounding of another batch moves a boundary between two tokens over its random number. Draws the
same samples from a 5 M-parameter Llama with random weights in one batch of 256 rows and in other
ways, and counts the rows' first differences; what follows one is another text. One JSON line a way;
``rate`` is first differences a token compared, to be under 1 in 10,000. Next-token distributions
are flat with the weights as initialised and peaked with a head eight times as large.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence

import torch

from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.records import Completion
from lab.benchmarks.speed.shapes import ModelSize, Shape
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts

HEADS = {"flat": 1.0, "peaked": 8.0}
SHAPE = Shape(prompt=300, completion=128, prompts=16, samples=64, mean=32)
"""Prompts are cut to lengths from half of that to all of it."""

Drawn = dict[tuple[str, int], Completion]
Way = Callable[[Sequence[SampleRequest]], Drawn]


def first_differences(left: Drawn, right: Drawn) -> tuple[int, int, float]:
    """Rows that differ, tokens compared up to the first difference, largest log-prob difference."""
    differing, compared, largest = 0, 0, 0.0
    for key, one in left.items():
        other = right[key]
        pairs = zip(one.token_ids, other.token_ids, strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        differing += same is not None
        shared = len(one.token_ids) if same is None else same
        compared += shared if same is None else shared + 1
        scores = zip(one.logprobs[:shared], other.logprobs[:shared], strict=True)
        largest = max([largest, *(abs(a - b) for a, b in scores)])
    return differing, compared, largest


def ways(sampler: Callable[..., TorchSampler], parameters: SamplingParameters) -> dict[str, Way]:
    """Other ways to draw the same samples."""

    def drawing(**limits: int) -> Way:
        return lambda requests: _draw(sampler(**limits), requests, parameters)

    return {
        "again": drawing(max_rows=256),
        "backwards": lambda requests: drawing(max_rows=256)(requests[::-1]),
        "max_rows=100": drawing(max_rows=100),
        "max_rows=16": drawing(max_rows=16),
        "cache_tokens=8000": drawing(cache_tokens=8000),
        "eight samples at a time": lambda requests: _in_parts(drawing(max_rows=256), requests, 8),
        "two threads": lambda requests: _on_two_threads(drawing(max_rows=256), requests),
    }


def _draw(
    sampler: TorchSampler, requests: Sequence[SampleRequest], parameters: SamplingParameters
) -> Drawn:
    groups = sampler.sample(requests, parameters, seed=0)
    return {(c.problem_id, c.sample_index): c for group in groups for c in group}


def _in_parts(draw: Way, requests: Sequence[SampleRequest], size: int) -> Drawn:
    drawn: Drawn = {}
    for first in range(0, requests[0].samples, size):
        drawn |= draw(
            [
                SampleRequest(
                    problem_id=request.problem_id,
                    prompt_ids=request.prompt_ids,
                    samples=size,
                    first_index=first,
                )
                for request in requests
            ]
        )
    return drawn


def _on_two_threads(draw: Way, requests: Sequence[SampleRequest]) -> Drawn:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        return draw(requests)
    finally:
        torch.set_num_threads(before)


def measure(shape: Shape) -> Iterator[dict[str, object]]:
    """One row for each distribution and way."""
    world = World(size=ModelSize(), shape=shape)
    tokenizer = build_tokenizer(world.size)
    requests = [
        SampleRequest(
            problem_id=str(i),
            prompt_ids=tuple(tokenizer.encode(prompt))[: shape.prompt - i % (shape.prompt // 2)],
            samples=shape.samples,
        )
        for i, prompt in enumerate(make_prompts(world, shape.prompts))
    ]
    parameters = SamplingParameters(
        max_tokens=shape.completion, stop_token_ids=world.stop_tokens, temperature=1.0
    )
    for name, scale in HEADS.items():
        model = build_model(world).eval()
        with torch.no_grad():
            model.get_output_embeddings().weight.mul_(scale)

        def sampler(model: object = model, **limits: int) -> TorchSampler:
            return TorchSampler(model, tokenizer, **limits)

        whole = _draw(sampler(max_rows=256), requests, parameters)
        for way, draw in ways(sampler, parameters).items():
            rows, tokens, largest = first_differences(whole, draw(requests))
            yield {
                "distribution": name,
                "way": way,
                "tokens": tokens,
                "first_differences": rows,
                "rate": rows / tokens,
                "largest_logprob_difference": largest,
            }


def main() -> None:
    """Print one JSON line a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=SHAPE.prompts)
    parser.add_argument("--samples", type=int, default=SHAPE.samples)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shape = Shape(
        prompt=SHAPE.prompt,
        completion=SHAPE.completion,
        prompts=arguments.prompts,
        samples=arguments.samples,
        mean=SHAPE.mean,
    )
    for row in measure(shape):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

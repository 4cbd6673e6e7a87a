"""When sharing prompts pays in the training forward: measured against what "auto" chooses.

    python lab/benchmarks/shared_prompts.py [--threads 1] [--repeats 5]

One JSON line for each model and shape: the time of a forward and backward pass with prompts shared,
the ratio of the time without (above 1: sharing is faster), and the choice of ``shared_prompts =
"auto"``, whose two constants (dph.model.forward.sharing) are set by this table.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from dph.model.forward.logprobs import completion_scores
from dph.model.forward.sharing import Sharing, forest_to_pack

MODELS = {
    "0.3M": {
        "vocab_size": 256,
        "hidden_size": 96,
        "num_hidden_layers": 3,
        "intermediate_size": 256,
    },
    "5M": {
        "vocab_size": 4096,
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "intermediate_size": 704,
    },
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Groups of a micro-batch; with ``ragged`` lengths vary from half to one and a half."""

    groups: int
    rows: int
    prompt: int
    completion: int
    ragged: bool


SHAPES = (
    Shape(1, 8, 30, 12, False),
    Shape(8, 8, 30, 12, True),
    Shape(16, 2, 20, 12, True),
    Shape(8, 16, 60, 20, True),
    Shape(16, 16, 30, 48, False),
    Shape(1, 16, 256, 64, False),
    Shape(1, 16, 800, 64, False),
    Shape(32, 1, 40, 10, True),
    Shape(32, 1, 60, 20, False),
    Shape(64, 1, 8, 4, False),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, config in MODELS.items():
        torch.manual_seed(0)
        heads = {
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "max_position_embeddings": 2048,
        }
        model = LlamaForCausalLM(LlamaConfig(**config, **heads)).train()
        for shape in SHAPES:
            row = {"model": name, "threads": options.threads, **asdict(shape)}
            print(json.dumps(row | _measure(model, shape, options.repeats)), flush=True)


def _measure(model: PreTrainedModel, shape: Shape, repeats: int) -> dict[str, object]:
    prompts, completions = _rows(shape)

    def run(sharing: Sharing) -> None:
        scores = completion_scores(
            model, prompts, completions, temperature=1.0, pad_id=0, sharing=sharing
        )
        torch.autograd.backward(scores.logprobs.sum())
        model.zero_grad(set_to_none=False)

    run("always")
    run("never")
    pairs = [(_seconds(run, "always"), _seconds(run, "never")) for _ in range(repeats)]
    ratios = sorted(apart / shared for shared, apart in pairs)
    return {
        "shared_s": round(statistics.median(shared for shared, _ in pairs), 5),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_range": [round(ratios[0], 2), round(ratios[-1], 2)],
        "auto_shares": forest_to_pack(model, prompts, completions, "auto") is not None,
    }


def _seconds(run: Callable[[Sharing], None], sharing: Sharing) -> float:
    started = time.perf_counter()
    run(sharing)
    return time.perf_counter() - started


def _rows(shape: Shape) -> tuple[list[list[int]], list[list[int]]]:
    numbers = random.Random(0)

    def draw(length: int) -> list[int]:
        if shape.ragged:
            length = numbers.randint(max(length // 2, 1), length * 3 // 2)
        return [numbers.randrange(3, 250) for _ in range(length)]

    prompts: list[list[int]] = []
    completions: list[list[int]] = []
    for _ in range(shape.groups):
        prompts += [draw(shape.prompt)] * shape.rows
        completions += [draw(shape.completion) for _ in range(shape.rows)]
    return prompts, completions


if __name__ == "__main__":
    main()

"""When sharing a prefix pays that groups have in common: measured against what `pack` does.

    python lab/benchmarks/prefixes.py [--threads 1] [--repeats 7]

One JSON line for each model, shape and length of the prefix: the time of a forward and backward
pass in which every group has its own prefix over that with one for all (above 1: sharing is
faster), and whether `pack` would share. The constants of dph.model.forward.prefix_tree are set by
this.
"""

import argparse
import json
import random
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from dph.model.forward.packing import PackedRows, pack
from dph.model.forward.sharing import run_packed

MODELS = {
    "0.3M": {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 256},
    "5M": {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 704},
    "20M": {"hidden_size": 512, "num_hidden_layers": 4, "intermediate_size": 2048},
}
SHAPES = ((4, 8, 200, 30), (8, 8, 30, 12), (16, 1, 100, 20))
"""Groups, rows in each, tokens of a prompt and of a completion."""
PREFIXES = (8, 16, 32, 64, 128)
Rows = tuple[list[list[int]], list[list[int]]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, sizes in MODELS.items():
        torch.manual_seed(0)
        config = LlamaConfig(**sizes, vocab_size=256, num_attention_heads=8, num_key_value_heads=4)
        model = LlamaForCausalLM(config).train()
        for shape in SHAPES:
            for prefix in (n for n in PREFIXES if n < shape[2]):
                row = {"model": name, "threads": options.threads, "shape": shape, "prefix": prefix}
                print(json.dumps(row | _measure(model, shape, prefix, options.repeats)), flush=True)


def _measure(
    model: PreTrainedModel, shape: tuple[int, int, int, int], prefix: int, repeats: int
) -> dict[str, object]:
    alike = _rows(shape, prefix)
    shared = pack(*alike, device=model.device, least_saved=0)
    apart = pack(*_rows(shape, 0), device=model.device, least_saved=0)
    ratios = [_seconds(model, apart) / _seconds(model, shared) for _ in range(repeats + 2)][2:]
    return {
        "tokens": [len(apart.ids), len(shared.ids)],
        "gain": round(statistics.median(ratios), 3),
        "gain_range": [round(min(ratios), 3), round(max(ratios), 3)],
        "pack_shares": len(pack(*alike, device=model.device).ids) == len(shared.ids),
    }


def _rows(shape: tuple[int, int, int, int], prefix: int) -> Rows:
    """Rows without anything in common but the prefix, in a group the prompt."""
    groups, samples, prompt, completion = shape
    numbers = random.Random(0)

    def draw(length: int) -> list[int]:
        return [numbers.randrange(256) for _ in range(length)]

    common = draw(prefix)
    prompts, completions = [], []
    for group in range(groups):
        prompts += [[*common, group, *draw(prompt - prefix - 1)]] * samples
        completions += [[row, *draw(completion - 1)] for row in range(samples)]
    return prompts, completions


def _seconds(model: PreTrainedModel, rows: PackedRows) -> float:
    started = time.perf_counter()
    torch.autograd.backward(run_packed(model, rows).logits.sum())
    model.zero_grad(set_to_none=False)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

"""The sampler beside that of another commit, turn by turn in one run.

    git worktree add ../before COMMIT
    python -m lab.benchmarks.commit_before --before ../before [--only schemas] [--repeats 5]

Each side is a process of its own that imports its own package; both draw the same samples with the
same seeds, one after the other, every other turn the other way round. Prints one JSON line a shape:
seconds of CPU time, the ratio of every pair, and how many samples are the same. The side ``apart``
is this commit without any sharing: every row with its prompt in a cache of transformers.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import IO, Any

import torch

from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from lab.benchmarks.speed.shapes import (
    FIVE_MILLION,
    MANY_SHORT,
    MANY_STOPS,
    QUICKSTART,
    ModelSize,
    Shape,
)
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts

SHAPES: dict[str, tuple[ModelSize, Shape, int]] = {
    "one short, 12": (FIVE_MILLION, Shape(prompt=12, completion=48, prompts=1), 256),
    "one short, 30": (FIVE_MILLION, Shape(prompt=30, completion=48, prompts=1), 256),
    "one short, 64": (FIVE_MILLION, Shape(prompt=64, completion=48, prompts=1), 256),
    "one short, small model": (QUICKSTART, Shape(prompt=30, completion=48, prompts=1), 256),
    "one of 256": (FIVE_MILLION, Shape(prompt=256, completion=48, prompts=1), 256),
    "many short": (FIVE_MILLION, MANY_SHORT, 256),
    "many stops": (FIVE_MILLION, MANY_STOPS, 256),
    "unrelated": (FIVE_MILLION, Shape(prompt=800, completion=64, prompts=8, mean=20), 256),
    "schemas": (
        FIVE_MILLION,
        Shape(prompt=800, completion=64, prompts=8, mean=20, schemas=2, schema=600),
        256,
    ),
    "schemas in waves": (
        FIVE_MILLION,
        Shape(prompt=800, completion=64, prompts=16, samples=8, mean=20, schemas=2, schema=600),
        32,
    ),
}
"""Model, rollout, and rows that are decoded side by side."""
APART = ("one short, 12", "one short, 30", "one short, 64", "one short, small model")
"""Shapes that are also drawn without any sharing."""


def main() -> None:
    """Print the table, or be one of its sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of the other commit")
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", nargs=2, metavar=("SHAPE", "HOW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.side:
        _be_a_side(*options.side)
        return
    if options.before is None or not (options.before / "src" / "dph").is_dir():
        parser.error(f"--before is a checkout of this repository, got {options.before}")
    for name in (n for n in SHAPES if options.only in n):
        print(json.dumps(_measured(name, options.before, options.repeats)), flush=True)


def _measured(name: str, before: Path, repeats: int) -> dict[str, Any]:
    here = Path(__file__).resolve().parents[2]
    sources = {"ours": (here, "shared"), "before": (before.resolve(), "shared")}
    if name in APART:
        sources["apart"] = (here, "apart")
    seconds: dict[str, list[float]] = {side: [] for side in sources}
    same = drawn = 0
    with _sides(name, sources, here) as sides:
        for turn in range(-1, repeats):
            found = {}
            for side in list(sides)[:: -1 if turn % 2 else 1]:
                found[side] = _ask(sides[side], turn + 1)
                if turn >= 0:
                    seconds[side].append(found[side]["seconds"])
            pairs = list(zip(found["ours"]["tokens"], found["before"]["tokens"], strict=True))
            same, drawn = same + sum(a == b for a, b in pairs), drawn + len(pairs)
    row: dict[str, Any] = {"shape": name, "rollout": str(SHAPES[name][1]), "repeats": repeats}
    for side, spent in seconds.items():
        row[f"{side}_s"] = round(median(spent), 4)
    for side in sources:
        if side != "ours":
            ratios = sorted(a / b for a, b in zip(seconds["ours"], seconds[side], strict=True))
            row[f"ours / {side}"] = round(median(ratios), 3)
            row[f"ours / {side}, range"] = [round(ratios[0], 3), round(ratios[-1], 3)]
    return row | {"samples": drawn, "same_samples": same}


@contextmanager
def _sides(
    name: str, sources: dict[str, tuple[Path, str]], here: Path
) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """A process for each side, ended at the end."""
    sides = {
        side: subprocess.Popen(
            [sys.executable, "-m", "lab.benchmarks.commit_before", "--side", name, how],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(source / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side, (source, how) in sources.items()
    }
    try:
        yield sides
    finally:
        for process in sides.values():
            process.kill()
            process.wait()


def _ask(process: "subprocess.Popen[str]", seed: int) -> dict[str, Any]:
    asked, answers = _open(process.stdin), _open(process.stdout)
    asked.write(f"{seed}\n")
    asked.flush()
    line = answers.readline()
    if not line:
        raise RuntimeError(f"a side ended with exit status {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _be_a_side(name: str, how: str) -> None:
    """Draw once for every seed on standard input."""
    size, shape, rows = SHAPES[name]
    world = World(size=size, shape=shape)
    tokenizer = build_tokenizer(size)
    sampler = TorchSampler(build_model(world).eval(), tokenizer, max_rows=rows)
    if how == "apart":
        sampler._refusals.append("measured without")
    requests = _requests(tokenizer, world)
    parameters = SamplingParameters(max_tokens=shape.completion, stop_token_ids=world.stop_tokens)
    for line in sys.stdin:
        started = time.process_time()
        drawn = sampler.sample(requests, parameters, seed=int(line))
        spent = time.process_time() - started
        tokens = [completion.token_ids for group in drawn for completion in group]
        print(json.dumps({"seconds": spent, "tokens": tokens}), flush=True)


def _requests(tokenizer: Any, world: World) -> Sequence[SampleRequest]:
    return [
        SampleRequest(
            problem_id=str(i),
            prompt_ids=tuple(tokenizer.encode(prompt)),
            samples=world.shape.samples,
        )
        for i, prompt in enumerate(make_prompts(world, world.shape.prompts))
    ]


if __name__ == "__main__":
    main()

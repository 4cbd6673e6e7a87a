"""A real model: SmolLM2-135M on sums, and on Spider where its files are at hand."""

import json
import random
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from lab.benchmarks.gpu.check import Check
from lab.benchmarks.gpu.recipes import last_metrics, run_recipe
from lab.benchmarks.speed.runs import Row

STEPS, PROBLEMS, SAMPLES = 4, 16, 8


def real(check: Check, *, model: Path | None, spider: Path | None) -> None:
    """A row for each: seconds of a step, and answers a second, the first step left out."""
    if model is None:
        print("real: --smollm2 DIR is not given: not measured")
        return
    with tempfile.TemporaryDirectory(prefix="dph-gpu-") as scratch:
        place = Path(scratch)
        sums = place / "sums.jsonl"
        write_sums(sums, count=4 * PROBLEMS)
        settings = {"data.train": sums, "data.verifier": "number", "sampling.max_tokens": 24}
        _trained(check, "sums", model, place, settings)
        if spider is not None:
            settings = {
                "data.train": spider / "train.jsonl",
                "data.databases": spider / "database",
                "data.verifier": "sql",
                "data.sql_rule": "spider",
                "sampling.max_tokens": 96,
            }
            _trained(check, "Spider", model, place, settings)


def write_sums(path: Path, *, count: int) -> None:
    """Additions of two numbers below 100."""
    drawn = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            a, b = drawn.randrange(100), drawn.randrange(100)
            question = {
                "problem_id": f"sum-{number}",
                "prompt": f"{a} + {b} =",
                "answer": str(a + b),
            }
            file.write(json.dumps(question) + "\n")


def _trained(check: Check, name: str, model: Path, place: Path, settings: dict[str, Any]) -> None:
    steps, problems, samples = (2, 2, 4) if check.tiny else (STEPS, PROBLEMS, SAMPLES)
    shape = f"SmolLM2-135M on {name}, {problems} x {samples}"
    row = check.row("gpu", f"real: {name}", shape=shape, side="this package")
    with check.guarded(row, name):
        out = place / name
        run_recipe(
            None,
            out,
            {
                "method": "grpo",
                "model.path": model,
                "model.device": check.device,
                "train.steps": steps,
                "train.problems_per_step": problems,
                "train.samples_per_problem": samples,
                "train.minibatches": 1,
                **settings,
            },
            timeout=max(1.0, check.left),
        )
        fill(check, row, last_metrics(out), answers=problems * samples)


def fill(check: Check, row: Row, metrics: list[dict[str, Any]], *, answers: int) -> None:
    """Seconds of steps but the first, and what they drew a second."""
    steps = metrics[1:] or metrics
    step = median(one["seconds"] for one in steps)
    check.note(
        row,
        step_s=step,
        sampling_s=median(one["seconds_sampling"] for one in steps),
        update_s=median(one["seconds_update"] for one in steps),
        answers_per_s=answers / step,
        **{k: v for k, v in metrics[-1].items() if k in ("sampler_gap", "peak_memory_device")},
    )

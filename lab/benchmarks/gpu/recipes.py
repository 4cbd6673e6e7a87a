"""Everything that a user does on one GPU, for two steps each, without a network.

The tests that need a GPU; then, of ``recipes/gpu``, a recipe with all weights, one with LoRA and
one with a base in four bits, through ``dph run``: their model is a small random Qwen3, their data
words, their verifier the parity of an answer's length. Measured memory stands next to its estimate.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dph.recipe import load_recipe
from dph.recipe.tables import BITSANDBYTES
from dph.runs.memory import estimate, load_of, read_shape
from lab.benchmarks.gpu.check import Check, SkippedError
from lab.benchmarks.gpu.places import QWEN3_0_6B
from lab.benchmarks.speed.runs import Row
from lab.benchmarks.speed.shapes import Shape
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts

ROOT = Path(__file__).resolve().parents[3]
RECIPES = {
    "all weights": "gsm8k-0.6b-full-24gb",
    "LoRA": "gsm8k-8b-lora-80gb",
    "LoRA on 4 bits": "gsm8k-8b-lora-24gb",
}
SMALL = replace(QWEN3_0_6B, vocabulary=8192, layers=8, head=64)
TINY = replace(
    SMALL, vocabulary=256, hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, head=16
)
_PARITY = '''"""Rewards half of all texts, whatever they say."""

from dph import Outcome, Verdict


def grade(response, problem):
    even = len(response) % 2 == 0
    return Verdict(outcome=Outcome.CORRECT if even else Outcome.WRONG, reward=float(even))
'''
_TEMPLATE = """\
{% for message in messages %}{{ message.content }} {% endfor %}\
{% if enable_thinking %}{% endif %}"""


def recipes(check: Check) -> None:
    """A row for the tests, and one for each recipe."""
    if check.cuda:
        row = check.row("gpu_recipes", "pytest -m gpu")
        with check.guarded(row, "tests"):
            _tests(check, row)
    with tempfile.TemporaryDirectory(prefix="dph-gpu-") as scratch:
        place = Path(scratch)
        shape = Shape(prompt=12 if check.tiny else 256, completion=64, prompts=16)
        world = World(size=TINY if check.tiny else SMALL, shape=shape)
        _write(world, place)
        for name, recipe in RECIPES.items():
            row = check.row("gpu_recipes", name, shape=recipe)
            with check.guarded(row, name):
                _short_run(check, row, place, recipe, shape)


def _tests(check: Check, row: Row) -> None:
    check.require(40)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=min(90, check.left)
    )
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    failed = [line for line in said if line.startswith(("FAILED", "ERROR"))]
    passed = done.returncode == 0
    check.note(row, passed=passed, said=said[-1:], **({"failed": failed} if failed else {}))


def _write(world: World, place: Path) -> None:
    """Model, problems and verifier, as a user has them."""
    model = build_model(world)
    vocabulary = world.size.vocabulary
    model.generation_config.eos_token_id = list(range(1, 1 + vocabulary // 16))  # short answers
    model.save_pretrained(place / "model")
    tokenizer = build_tokenizer(world.size)
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(place / "model")
    (place / "parity.py").write_text(_PARITY, encoding="utf-8")
    with (place / "problems.jsonl").open("w", encoding="utf-8") as file:
        for number, prompt in enumerate(make_prompts(world, 32)):
            problem = {"id": f"p{number}", "question": prompt, "answer": "0"}
            file.write(json.dumps(problem) + "\n")


def _short_run(check: Check, row: Row, place: Path, name: str, shape: Shape) -> None:
    if name.endswith("lora-24gb") and not (check.cuda and BITSANDBYTES.is_installed):
        raise SkippedError("4 bits need CUDA and bitsandbytes")
    check.require(40)
    source = (ROOT / "recipes" / "gpu" / f"{name}.toml").read_text(encoding="utf-8")
    lines = [line for line in source.splitlines() if not line.startswith("sets.")]
    recipe = place / f"{name}.toml"
    recipe.write_text("\n".join(lines) + "\n", encoding="utf-8")
    problems, samples = (4, 4) if check.tiny else (16, 8)
    settings = {
        "model.path": place / "model",
        "model.device": check.device,
        "data.train": place / "problems.jsonl",
        "data.verifier": "parity:grade",
        "sampling.max_tokens": shape.completion,
        "presample.samples": 4,
        "presample.threshold": 2,
        "train.steps": 2,
        "train.problems_per_step": problems,
        "train.samples_per_problem": samples,
        "train.rehearsal_per_step": problems,
    }
    run_recipe(recipe, place / name, settings, timeout=check.left)
    metrics = last_metrics(place / name)
    check.note(row, steps=len(metrics), step_s=metrics[-1]["seconds"], passed=True)
    measured = metrics[-1].get("peak_memory_device")
    if measured is None:
        return
    known = load_recipe(recipe, overrides=[f"{key}={value}" for key, value in settings.items()])
    found = estimate(
        known,
        read_shape(place / "model"),
        load_of(known, prompt=shape.prompt + 16, cuda=True),
        cuda=True,
        gpu=torch.cuda.mem_get_info()[1],
    )
    check.note(row, peak_gib=measured, estimated_gib=found.peak / 2**30)


def run_recipe(
    recipe: Path | None, out: Path, settings: Mapping[str, Any], *, timeout: float
) -> None:
    """``dph run`` in a process of its own.

    Raises:
        RuntimeError: it failed; the message is the end of what it said.
    """
    if recipe is None:
        recipe = out.with_suffix(".toml")
        recipe.write_text(f'name = "{out.name}"\n', encoding="utf-8")
    pairs = [f"{key}={value}" for key, value in settings.items()]
    options: Sequence[str] = [x for pair in pairs for x in ("--set", pair)]
    command = [sys.executable, "-m", "dph", "run", str(recipe), "--out", str(out), *options]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-600:])


def last_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    (path,) = sorted(run.rglob("metrics.jsonl"))[:1]
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

"""Estimated against measured peak memory of training, on a CPU.

    python -m lab.benchmarks.memory            every shape, each in a process of its own
    python -m lab.benchmarks.memory adapter    one of them
    python -m lab.benchmarks.memory smollm2    those of a real model (make smollm2)

A case is an update of a model with random weights as `dph train` makes it: rows of given lengths,
forward, backward, AdamW, twice. What the libraries hold before the model is loaded is not counted,
nor is it estimated. The C library gives freed memory back at once (MALLOC_MMAP_THRESHOLD_), so that
what is measured is what is held, and not how the heap is broken up. The estimate comes from the
saved model's files, as in ``dph recipe check``.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dph.model.policies import load_policy, sharing
from dph.recipe import resolve_recipe
from dph.runs.memory import estimate, load_of, read_shape
from dph.runs.objective import make_objective
from dph.runs.train.optimizer import make_optimizer
from dph.runs.train.rows import Minibatch, PolicyRow
from dph.runs.train.updating import TrainingForward, update
from lab.benchmarks.speed.memory import held_mib, peak_mib
from lab.smollm2 import HOW, smollm2_place

ROOT = Path(__file__).parents[2]
MIB = 2**20
_THRESHOLD = "MALLOC_MMAP_THRESHOLD_"
MODEL = {"hidden": 192, "inner": 512, "layers": 4, "heads": 8, "vocabulary": 4096}
_FULL: dict[str, Any] = {"prompt": 256, "answer": 64, "groups": 2, "samples": 8}
_ADAPTER = _FULL | {"adapter": "lora"}
CASES = {
    "full": _FULL,
    "apart": _FULL | {"shared": "never"},
    "vocabulary": _FULL | {"prompt": 128, "answer": 128, "vocabulary": 32768, "layers": 4},
    "checkpointing": _FULL | {"prompt": 512, "answer": 128, "recompute": True},
    "adapter": _ADAPTER,
    "adapter grpo": _ADAPTER | {"groups": 4, "method": "grpo"},
    "adapter rkl": _ADAPTER | {"groups": 4, "method": "rkl"},
}
"""Of random weights: five shapes, and the same adapter under two methods."""
REAL: dict[str, dict[str, Any]] = {
    "smollm2 few-shot": {"prompt": 100, "common": 80, "answer": 6, "groups": 8, "samples": 8},
    "smollm2 60 tokens": {"prompt": 80, "answer": 60, "groups": 2, "samples": 8},
    "smollm2 apart": {"prompt": 100, "answer": 20, "groups": 2, "samples": 6, "shared": "never"},
    "smollm2 checkpointing": _FULL | {"answer": 60, "groups": 1, "samples": 16, "recompute": True},
    "smollm2 adapter": _ADAPTER | {"prompt": 128, "answer": 32, "method": "grpo"},
}
"""Of SmolLM2-135M-Instruct: a vocabulary of 49,152, a tied head."""


def recipe_of(case: dict[str, Any], directory: Path) -> Any:
    """The recipe of a case, whose model lies in ``directory``."""
    model: dict[str, Any] = {"path": str(directory), "device": "cpu"}
    model["gradient_checkpointing"] = case.get("recompute", False)
    if case.get("adapter"):
        model["adapter"] = {"kind": case["adapter"], "rank": 16}
    return resolve_recipe(
        {
            "method": case.get("method", "grpo"),
            "model": model,
            "data": {"train": "none.jsonl", "verifier": "exact"},
            "sampling": {"max_tokens": case["answer"]},
            "train": {
                "problems_per_step": case["groups"],
                "samples_per_problem": case["samples"],
                "minibatches": 1,
                "microbatch_tokens": 10**6,
                "shared_prompts": case.get("shared", "always"),
            },
        }
    ).on_device(cuda=False)


def save_model(case: dict[str, Any], directory: Path) -> None:
    """A Llama with random weights."""
    size = MODEL | {key: case[key] for key in MODEL if key in case}
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=size["vocabulary"],
        hidden_size=size["hidden"],
        intermediate_size=size["inner"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["heads"] // 2,
        max_position_embeddings=4096,
    )
    LlamaForCausalLM(config).save_pretrained(directory)


def estimated(case: dict[str, Any], directory: Path) -> Any:
    """What ``dph recipe check`` would say."""
    recipe = recipe_of(case, directory)
    load = load_of(recipe, prompt=case["prompt"], common=case.get("common", 0))
    return estimate(recipe, read_shape(directory), load)


def measure(case: dict[str, Any], directory: Path, *, small: Path) -> float:
    """Bytes that two updates add at most. The first, of a tiny model, loads the libraries."""
    _updates({**case, "prompt": 32, "common": 0, "answer": 4}, small)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = held_mib("cpu")
    _updates(case, directory)
    return (peak_mib("cpu") - before) * MIB


def _updates(case: dict[str, Any], directory: Path) -> None:
    recipe = recipe_of(case, directory)
    initial = load_policy(directory, recipe.model, initial=directory)
    policy = load_policy(directory, recipe.model, initial=directory, seed=0, whole=sharing(initial))
    forward = TrainingForward(
        model=policy,
        pad_id=0,
        temperature=1.0,
        dtype=recipe.model.dtype,
        token_budget=recipe.train.microbatch_tokens,
        max_tokens=recipe.sampling.max_tokens,
        sharing=recipe.train.shared_prompts,
    )
    optimizer = make_optimizer(policy, recipe.train)
    objective = make_objective(recipe.objective, recipe.data.modules)
    torch.manual_seed(0)
    for _ in range(2):
        groups = list(_groups(case, policy.config.vocab_size))
        if objective.reads_reference_logprobs:
            rows = [row for group in groups for row in group]
            prompts, completions = zip(
                *((r.prompt_ids, r.completion_ids) for r in rows), strict=True
            )
            scores = iter(forward.logprobs(initial, prompts, completions))
            groups = [tuple(replace(r, ref_logprobs=next(scores)) for r in g) for g in groups]
        minibatch = Minibatch(groups=groups, stored={})
        update(minibatch, forward, optimizer, objective=objective, max_grad_norm=1.0)


def _groups(case: dict[str, Any], vocabulary: int) -> Iterator[tuple[Any, ...]]:
    common = torch.randint(vocabulary, (case.get("common", 0),)).tolist()
    for _ in range(case["groups"]):
        own = torch.randint(vocabulary, (case["prompt"] - len(common),)).tolist()
        prompt = (*common, *own)
        yield tuple(
            PolicyRow(
                prompt_ids=prompt,
                completion_ids=tuple(torch.randint(vocabulary, (case["answer"],)).tolist()),
                advantage=(-1.0) ** sample,
                old_logprobs=(-1.0,) * case["answer"],
                masked=False,
            )
            for sample in range(case["samples"])
        )


def run_case(name: str) -> dict[str, float]:
    """One case in this process: bytes by part, and what was measured."""
    torch.set_num_threads(1)
    case = {**CASES, **REAL}[name]
    with tempfile.TemporaryDirectory() as temporary:
        small, whole = Path(temporary) / "small", Path(temporary) / "model"
        save_model({**case, "layers": 2, "hidden": 64, "inner": 128, "vocabulary": 256}, small)
        if name in REAL:
            whole = smollm2_place() or whole
        else:
            save_model(case, whole)
        found = estimated(case, whole)
        measured = measure(case, whole, small=small)
    parts = ("weights", "gradients", "optimizer", "activations", "activations_apart", "training")
    return {**{part: getattr(found, part) for part in parts}, "measured": measured}


def _names(asked: list[str]) -> list[str]:
    """The cases that were asked for; those of the real model only where it is."""
    names = asked or [*CASES, *REAL]
    if "smollm2" in names:
        names = [name for name in names if name != "smollm2"] + list(REAL)
    if smollm2_place() is None and any(name in REAL for name in names):
        print(f"the shapes of SmolLM2 are left out: {HOW}", file=sys.stderr)
        names = [name for name in names if name not in REAL]
    return names


def main() -> None:
    """Every case that is asked for, side by side, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=", ".join([*CASES, *REAL, "smollm2"]))
    names = _names(parser.parse_args().cases)
    if _THRESHOLD not in os.environ:  # the C library reads it when a process begins
        command = [sys.executable, "-m", "lab.benchmarks.memory", *names]
        environment = os.environ | {_THRESHOLD: "65536"}
        raise SystemExit(subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode)
    columns = ("weights", "gradients", "optimizer", "activations", "without sharing")
    print(f"| shape, MiB | {' | '.join(columns)} | estimated | measured | estimated / measured |")
    print("| --- |" + " --- |" * 8, flush=True)
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for name in names:
            found = pool.apply(run_case, (name,))
            numbers = " | ".join(f"{value / MIB:.0f}" for value in found.values())
            ratio = found["training"] / found["measured"]
            print(f"| {name} | {numbers} | **{ratio:.2f}** |", flush=True)


if __name__ == "__main__":
    main()

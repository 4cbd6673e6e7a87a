"""The directory of a run that has been trained and evaluated, without doing either."""

import json

import pytest

from dph.recipe import resolve_recipe, save_recipe

WEIGHTS = b"weights after RL"
TOKENS = b'{"tokens": 1}'


def evaluation_of(model, mean):
    measured = {
        "problems": 40,
        "greedy": mean,
        "mean": mean,
        "pass_at_k": {"1": mean, "8": 2 * mean},
        "ci95": {"mean": [mean - 0.05, mean + 0.05], "pass_at_8": [0.5, 0.9]},
        "effective_styles": 3.0,
        "cut_off": 0.0,
    }
    return {"schema": 2, "model": str(model), "samples": 16, "sets": {"dev": measured}}


def make_run(run, *, model="org/base", revision="a" * 40, method="grpo", notes=""):
    table = {
        "name": "words",
        "notes": notes,
        "method": method,
        "model": {"path": model} | ({"revision": revision} if revision else {}),
        "data": {
            "train": "hf://datasets/org/words@v1/train.parquet",
            "sets": {"dev": "/home/me/secret/dev.jsonl"},
            "modules": ["/home/me/secret"],
        },
    }
    checkpoint = run / "checkpoints" / "step_000002"
    checkpoint.mkdir(parents=True)
    save_recipe(resolve_recipe(table), run / "recipe.toml")
    files = {"model.safetensors": WEIGHTS, "tokenizer.json": TOKENS, "config.json": b"{}"}
    for name, data in {**files, "optimizer.safetensors": b"", "trainer.json": b"{}"}.items():
        (checkpoint / name).write_bytes(data)
    measure(run, checkpoint)
    return run


def measure(run, checkpoint):
    for place, model, mean in ((run / "base", "base", 0.3), (run, checkpoint, 0.4)):
        place.mkdir(exist_ok=True)
        (place / "evaluation.json").write_text(json.dumps(evaluation_of(model, mean)))


@pytest.fixture
def finished(tmp_path):
    return make_run(tmp_path / "run")

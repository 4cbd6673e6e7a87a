import pytest

from dph.recipe import save_recipe

CHILD = """
import sys
from pathlib import Path

from dph.runs.progress import Silent
from dph.runs.training_stage import train_stage
from dph.runs.prepare import prepare
from dph.recipe import load_recipe
from dph.runs.train import evaluations

def told(name):
    inner = getattr(evaluations.Evaluations, name)
    def wrapped(self, *arguments):
        print(name, "starts", flush=True)
        found = inner(self, *arguments)
        print(name, "ended", flush=True)
        return found
    setattr(evaluations.Evaluations, name, wrapped)

told("begin")
told("_write")
with prepare(load_recipe(sys.argv[1]), Path(sys.argv[2]), stage="train") as plan:
    train_stage(plan, Silent())
"""


def finish(program, run):
    with program:
        code, _, said = program.finish()
    assert code == 0, said
    names = ("progress.parquet", "progress_initial.parquet", "checkpoints/best.json")
    weights = run / "checkpoints" / "step_000004" / "model.safetensors"
    kept = sorted((run / "training_samples").iterdir())
    assert [path.name for path in kept] == [f"step_00000{i}.parquet" for i in (1, 2, 3, 4)]
    return [path.read_bytes() for path in (*(run / name for name in names), weights, *kept)]


def kill_at(program, line, count):
    """SIGKILL as soon as the program has printed ``line`` so many times."""
    with program:
        for said in program.lines():
            count -= said == line
            if not count:
                program.kill()
                return
    raise AssertionError(f"{line!r} was not said often enough")


@pytest.mark.slow
def test_killed_while_drawing_grading_or_writing_it_ends_with_the_same_file(
    make_recipe, fork_program, tmp_path
):
    recipe = make_recipe(
        "grpo",
        train={"steps": 4, "checkpoint_every": 2},
        evaluate={"every": 1, "during": {"samples": 2}, "keep_best": "mean"},
    )
    save_recipe(recipe, tmp_path / "recipe.toml")

    def start(name):
        return fork_program(CHILD, tmp_path / "recipe.toml", tmp_path / name)

    whole = finish(start("whole"), tmp_path / "whole")
    for line, count in [
        ("begin starts", 1),
        ("begin ended", 2),
        ("_write starts", 2),
        ("begin ended", 1),
        ("_write ended", 1),
    ]:
        kill_at(start("killed"), line, count)
    assert finish(start("killed"), tmp_path / "killed") == whole

"""What can be refused without torch is refused before it, or anything as slow, is imported."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "vl_convert")
REFUSED = {
    "export RUN --out THERE": "already exists",
    "export RUN --out new": "there is no checkpoint in",
    "export nowhere --out new": "there is no checkpoint in nowhere",
    "export RUN --out new --weights int8": "bfloat16",
    "figure styles RUN --out x.gif": "a picture is a .png, .svg or .pdf file, got 'x.gif'",
    "figure styles RUN --out x": "a picture is a .png, .svg or .pdf file, got 'x'",
    "figure styles RUN --out nowhere/x.png": "there is no directory",
    "table scores RUN --out THERE": "names a directory",
    "interpolate RUN --weights 1.5": "between 0 (the initial policy) and 1",
    "interpolate RUN --weights=-0.1": "between 0 (the initial policy) and 1",
    "interpolate RUN --weights=": "at least one weight",
    "interpolate RUN --weights 0.5,half": "takes numbers separated by commas",
    "interpolate RUN --weights 0.5,0.50": "named twice",
    "interpolate RUN --weights nan": "finite number, got nan",
    "interpolate RUN --layers 3": "--layers takes two numbers",
    "interpolate RUN": "there is no checkpoint in",
    "interpolate RUN --set data.sets={}": "nothing to evaluate on",
    "interpolate nowhere": "cannot read the recipe",
    "evaluate RECIPE --model nowhere": "is not the directory of a saved transformers model",
    "evaluate RECIPE --set data.sets={}": "nothing to evaluate on",
    "card RUN": "is not a run and contains none",
    "push RUN me/model": "is not a run and contains none",
    "run RECIPE --dry-run": "train.engine",
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Every command in one process: its exit code, what it said, and what was imported by then."""
    place = tmp_path_factory.mktemp("place")
    (place / "run").mkdir()
    (place / "there").mkdir()
    (place / "model").mkdir()
    (place / "saved").mkdir()
    (place / "saved" / "config.json").write_text("{}")
    (place / "p.jsonl").write_text('{"problem_id": "a", "prompt": "?", "answer": "b"}\n')
    recipe = 'name = "a"\nmodel.path = "model"\ndata.train = "p.jsonl"\ndata.verifier = "exact"\n'
    (place / "recipe.toml").write_text(f'{recipe}data.sets.dev = "p.jsonl"\n')
    (place / "run" / "recipe.toml").write_text(f'{recipe}data.sets.dev = "../p.jsonl"\n')
    names = {"RUN": "run", "THERE": "there", "RECIPE": "recipe.toml", "MODEL": "saved"}
    commands = [[names.get(word, word) for word in each.split()] for each in REFUSED]
    program = """
import contextlib, io, json, sys
from dph.cli import main
done = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    done.append((code, said.getvalue(), [name for name in sys.argv[1:] if name in sys.modules]))
print(json.dumps(done))
"""
    made = subprocess.run(
        [sys.executable, "-c", program, *HEAVY],
        input=json.dumps(commands),
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(path.name for path in place.iterdir()) == [
        *("model", "p.jsonl", "recipe.toml", "run", "saved", "there")
    ]
    return dict(zip(REFUSED, json.loads(made.stdout), strict=True))


@pytest.mark.parametrize(("command", "message"), REFUSED.items())
def test_it_is_refused_in_one_line_before_torch(done, command, message):
    code, said, imported = done[command]
    assert (code, imported) == (2, []), said
    assert message in said
    assert len(said.splitlines()) == 1


MODULES = (
    *("dph.cli", "dph.tasks.agreement", "dph.tasks.verifiers.function"),
    "dph._processes.workers.child",
    *("dph.tasks.verifiers.code.handler", "dph.tasks.verifiers.sql.executor"),
)
SLOW = (*HEAVY, "huggingface_hub", "numpy", "pyarrow", "pydantic", "sympy")


def test_the_command_line_and_what_runs_in_workers_load_nothing_slow():
    """Nor is the Hub's own package loaded where no recipe names something there."""
    code = f"import sys, {', '.join(MODULES)}; print([n for n in {SLOW} if n in sys.modules])"
    code += "; import dph.model.hub; print('huggingface_hub' in sys.modules)"
    code += "; import dph.results.plot; print('vl_convert' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False", "False"]

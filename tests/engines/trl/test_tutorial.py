"""docs/tutorials/trl.md word by word: its commands, its script in TRL, and its reward function."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import Dataset

from dph import make_verifier
from dph.tasks.problems import load_problems
from tiny_models import build_model, build_tokenizer

PAGE = Path(__file__).parents[3] / "docs/tutorials/trl.md"
BLOCKS = re.findall(r"```(\w+)[^\n]*\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def words_of(line):
    words = shlex.split(line, comments=True)
    if words[1] == "quickstart":
        words.append("--tiny")
    return [sys.executable, "-m", *words]


@pytest.mark.slow
def test_the_page_is_followed_from_the_pool_to_the_report(tmp_path):
    printed = []
    for language, body in BLOCKS:
        commands = []
        if language == "sh":
            commands = [words_of(line) for line in body.splitlines()]
        elif language == "diff":
            script = "\n".join(line[1:] for line in body.splitlines() if line[0] in " +")
            commands = [[sys.executable, "-c", script.replace("max_steps=20", "max_steps=2")]]
        for words in commands:
            done = subprocess.run(
                words,
                cwd=tmp_path,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            assert done.returncode == 0, (words, done.stderr[-3000:])
            printed.append(done.stdout)
    *_, trained, compared, _, _, _, reported = printed
    assert "rehearsal/loss" in trained
    assert "eval_heldout/pass_at_16" in trained
    assert re.search(r"heldout.*pass@16", compared, re.IGNORECASE), compared
    assert "1,632 answers" in reported  # 17 to each of 48 problems, by both models


@pytest.mark.slow
def test_the_script_of_the_readme_trains_as_it_stands(tmp_path):
    """Its recipe too, but for the grader: a small model answers nothing right."""
    text = (PAGE.parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", text, re.DOTALL))
    assert len(blocks["python"].splitlines()) <= 20
    recipe = blocks["toml"].replace('verifier = "number"', 'verifier = "rewards:known"')
    (tmp_path / "recipe.toml").write_text(recipe.replace("max_tokens = 256", "max_tokens = 64"))
    known = "def known(response, problem):\n    return float('w3' in problem.prompt)\n"
    (tmp_path / "rewards.py").write_text(known)
    rows = [{"problem_id": f"{w}{n}", "prompt": f"w{w} w{n}"} for w in "34" for n in range(10, 18)]
    for name in ("train", "test"):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps({**row, "answer": ""}) + "\n" for row in rows))
    model = tmp_path / re.search(r'model\.path = "(.*?)"', recipe)[1]
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}w5"
    small = build_model(initializer_range=0.01, max_position_embeddings=512)
    small.save_pretrained(model)  # one in 48 tokens ends an answer
    tokenizer.save_pretrained(model)
    (tmp_path / "script.py").write_text(blocks["python"])
    for words in (["-m", "dph", "presample", "recipe.toml", "--out", "run"], ["script.py"]):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
    assert "train_runtime" in done.stdout


def test_a_data_set_and_a_reward_function_serve_a_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (reward,) = [body for language, body in BLOCKS if language == "python"]
    Path("rewards.py").write_text(reward)
    (line,) = re.findall(r"`(dataset\..*?)`", PAGE.read_text(encoding="utf-8"))
    dataset = Dataset.from_dict({"prompt": ["2 + 2?", "3 + 3?"], "solution": ["4", "6"]})
    exec(line, {"dataset": dataset})
    problems = load_problems("problems.jsonl")
    with make_verifier("rewards:accuracy") as verifier:
        verdicts = verifier.grade(problems, ["4", " 4 "])
    assert [verdict.outcome.value for verdict in verdicts] == ["CORRECT", "WRONG"]

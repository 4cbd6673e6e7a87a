"""Acceptance: the example task with its model and its data by their names on a Hub on loopback."""

import json
import os
import subprocess
import sys

import pytest

from dph.model.hub import resolve_names
from dph.recipe import load_recipe
from dph.results.read.run_results import RunResults
from hub_fixtures import *  # noqa: F403

SHORT = ("--set", "method=grpo", "--set", "train.steps=2", "--set", "evaluate.samples=4")
SHORT = (*SHORT, "--set", "evaluate.k=[1, 4]")
TRAIN = "hf://datasets/org/words/data/train.jsonl"


def from_hub(*more):
    names = ("model.path=org/tiny", f"data.train={TRAIN}", f"data.sets.train={TRAIN}")
    columns = ("data.columns.prompt=question", "data.columns.answer=gold")
    return [word for setting in (*names, *columns, *more) for word in ("--set", setting)]


def renamed_rows(example):
    """The problems of the example, with other names for their columns."""
    rows = map(json.loads, (example.parent / "problems.jsonl").read_text().splitlines())
    names = {"prompt": "question", "answer": "gold"}
    rows = [{names.get(key, key): value for key, value in row.items()} for row in rows]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def published(hub, example):
    """The commits of the task's model and data."""
    model = hub.push_directory("org/tiny", example.parent / "model")
    data = hub.push("org/words", {"data/train.jsonl": renamed_rows(example)}, kind="datasets")
    return model, data


def weights(run):
    return next(run.glob("checkpoints/step_*2/model.safetensors")).read_bytes()


@pytest.mark.usefixtures("published")
def test_nothing_half_written_and_one_line(refusal, example, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    wrong = {
        "model.path=org/none": "org/none: http://127.0.0.1",
        "model.revision=v9": "org/tiny at v9: the repository has no such revision",
        "data.train=hf://datasets/org/words/gone.jsonl": "gone.jsonl: the repository has no such",
        "data.train=hf://datasets/org/none/a.jsonl": "org/none/a.jsonl: http://127.0.0.1",
        "data.columns.prompt=text": "there is no column 'text'",
    }
    for setting, message in wrong.items():
        assert message in refusal("run", example, *SHORT, *from_hub(setting))
    assert [p for p in sorted(tmp_path.rglob("*")) if "__pycache__" not in p.parts] == before


@pytest.mark.usefixtures("published")
def test_recipe_check_fetches_nothing_and_says_what_a_run_would(dph, hub, example):
    code, out, err = dph("recipe", "check", example, *from_hub())
    assert code == 0, err
    assert hub.requests == []
    assert "org/tiny; a run would fetch the model of that name from the Hub, at its main" in out
    assert f"data.train is not in the cache: a run would fetch {TRAIN} from the Hub" in out


@pytest.mark.usefixtures("published")
def test_recipe_check_looks_at_what_is_in_the_cache(dph, hub, example):
    resolve_names(load_recipe(example, overrides=from_hub()[1::2]))
    asked = len(hub.requests)
    code, out, err = dph("recipe", "check", example, *from_hub())
    assert code == 0, err
    assert "org/tiny of the Hub, its main branch, is in the cache" in out
    code, _, err = dph("recipe", "check", example, *from_hub("data.columns.answer=result"))
    assert code == 2
    assert "data.train: " in err
    assert "there is no column 'result'" in err
    assert len(hub.requests) == asked


@pytest.mark.slow
def test_names_on_the_hub_online_and_then_offline_give_the_weights_of_local_files(
    dph, hub, published, example, tmp_path
):
    model, data = published
    code, _, err = dph("run", example, *SHORT, "--out", tmp_path / "local")
    assert code == 0, err
    around = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = {  # tests of engines are offline for a whole session
        **around,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_XET": "1",
    }

    def run(name, **more):
        words = ("run", str(example), *SHORT, *from_hub(), "--out", str(tmp_path / name))
        return subprocess.run(
            [sys.executable, "-m", "dph", *words],
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    online = run("online")
    assert online.returncode == 0, online.stderr
    assert f"dph: model.path: org/tiny of the Hub at {model[:12]}" in online.stderr
    saved = (tmp_path / "online" / "recipe.toml").read_text()
    assert f'revision = "{model}"' in saved
    assert f'train = "hf://datasets/org/words@{data}/data/train.jsonl"' in saved
    hub.close()
    offline = run("offline", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    assert weights(tmp_path / "online") == weights(tmp_path / "local")
    assert weights(tmp_path / "offline") == weights(tmp_path / "local")
    for name in ("local", "online", "offline"):  # models of the Hub lie in a cache
        assert RunResults(tmp_path / name).initial.results.path == tmp_path / name / "base"

import json

import pyarrow.parquet as pq
import pytest


@pytest.fixture
def trained(dph, example, tmp_path):
    run = tmp_path / "run"
    learns = ("method=grpo", "train.learning_rate=0.03")
    few = ("evaluate.samples=4", "evaluate.k=[1, 4]", "evaluate.retention_k=2")
    assert dph("train", example, "--out", run, settings=(*learns, *few))[0] == 0
    return run


def answers(directory):
    """Greedy and sampled ones, in order."""
    return pq.read_table(directory / "samples.parquet").column("text").to_pylist()


def test_every_model_is_made_measured_and_set_beside_base_and_run(dph, trained):
    code, out, _ = dph("interpolate", trained, "--weights", "0,0.3,1")
    assert code == 0
    for weight in ("0", "0.3", "1"):
        place = trained / "interpolated" / weight
        for name in ("config.json", "model.safetensors", "evaluation.json", "samples.parquet"):
            assert (place / name).is_file()
        assert f"{weight}: {place}" in out
    styles = out[out.index("effective styles") :].splitlines()[2:7]
    names = ["base", "0", "0.3", "1", "run"]
    assert [next(name for name in names if name in line.split()) for line in styles] == names
    # The ends of the line answer as base and run do.
    assert answers(trained / "interpolated" / "1") == answers(trained)
    assert answers(trained / "interpolated" / "0") == answers(trained / "base")
    assert answers(trained) != answers(trained / "base")
    samples = trained / "interpolated" / "0.3" / "samples.parquet"
    before = samples.stat().st_mtime_ns
    code, out, _ = dph("interpolate", trained, "--weights", "0.3", "--json")
    assert (code, samples.stat().st_mtime_ns) == (0, before)  # what is measured is kept
    content = json.loads(out)
    (third,) = content["interpolated"]
    assert (third["weight"], third["directory"]) == (0.3, str(samples.parent))
    for said, directory in (
        (third["evaluation"], samples.parent),
        (content["base"], trained / "base"),
        (content["evaluation"], trained),
    ):
        assert said == json.loads((directory / "evaluation.json").read_text())
    assert list(content["comparison"]["labels"].values()) == ["base", "0.3", "run"]


def test_settings_can_be_overridden_and_an_unfinished_run_is_told(document, trained, caplog):
    settings = ("evaluate.samples=2", "evaluate.k=[1]", "evaluate.retention_k=1", "train.steps=9")
    found = document("interpolate", trained, "--weights", "0.5", settings=settings)
    assert found["interpolated"][0]["evaluation"]["samples"] == 2
    (message,) = caplog.messages
    assert f"{trained} is unfinished, after 4 of 9 steps" in message

import json

import pyarrow.parquet as pq
import pytest


@pytest.fixture
def trained(dph, example, tmp_path):
    run = tmp_path / "run"
    learns = ("--set", "method=grpo", "--set", "train.learning_rate=0.03")
    assert dph("train", example, "--out", run, *learns)[0] == 0
    return run


def answers(directory):
    """Greedy and sampled ones, in order."""
    return pq.read_table(directory / "samples.parquet").column("text").to_pylist()


def test_every_model_is_made_measured_and_set_beside_base_and_run(dph, trained):
    code, out, _ = dph("interpolate", trained, "--weights", "0.3,0.7")
    assert code == 0
    for weight in ("0.3", "0.7"):
        place = trained / "interpolated" / weight
        for name in ("config.json", "model.safetensors", "evaluation.json", "samples.parquet"):
            assert (place / name).is_file()
        assert f"{weight}: {place}" in out
    styles = out[out.index("effective styles") :].splitlines()[2:6]
    assert [set(line.split()) & {"base", "0.3", "0.7", "run"} for line in styles] == [
        {"base"},
        {"0.3"},
        {"0.7"},
        {"run"},
    ]


def test_its_json_has_every_evaluation_and_the_comparison(dph, trained):
    code, out, _ = dph("interpolate", trained, "--weights", "0.5", "--json")
    content = json.loads(out)
    assert code == 0
    (half,) = content["interpolated"]
    place = trained / "interpolated" / "0.5"
    assert (half["weight"], half["directory"]) == (0.5, str(place))
    assert half["evaluation"] == json.loads((place / "evaluation.json").read_text())
    assert content["base"] == json.loads((trained / "base" / "evaluation.json").read_text())
    assert content["evaluation"] == json.loads((trained / "evaluation.json").read_text())
    assert list(content["comparison"]["labels"].values()) == ["base", "0.5", "run"]


def test_the_ends_of_the_line_answer_as_base_and_run_do(dph, trained):
    assert dph("interpolate", trained, "--weights", "0,1")[0] == 0
    assert answers(trained / "interpolated" / "1") == answers(trained)
    assert answers(trained / "interpolated" / "0") == answers(trained / "base")
    assert answers(trained) != answers(trained / "base")


def test_what_is_measured_is_kept(dph, trained):
    assert dph("interpolate", trained, "--weights", "0.5")[0] == 0
    samples = trained / "interpolated" / "0.5" / "samples.parquet"
    before = samples.stat().st_mtime_ns
    assert dph("interpolate", trained, "--weights", "0.5,0.6")[0] == 0
    assert samples.stat().st_mtime_ns == before


def test_settings_of_the_evaluation_can_be_overridden(dph, trained):
    words = ("interpolate", trained, "--weights", "0.5", "--set", "evaluate.samples=3")
    words += ("--set", "evaluate.k=[1]", "--set", "evaluate.retention_k=1", "--json")
    code, out, _ = dph(*words)
    assert code == 0
    assert json.loads(out)["interpolated"][0]["evaluation"]["samples"] == 3


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("0.5,half", "takes numbers separated by commas"),
        ("0.5,0.50", "0.5 is named twice"),
        ("-0.1", "between 0 (the initial policy) and 1"),
        ("nan", "finite number, got nan"),
        ("", "at least one weight"),
    ],
)
def test_a_weight_that_means_nothing_is_bad_input(dph, trained, weights, said):
    code, _, err = dph("interpolate", trained, f"--weights={weights}")
    assert code == 2
    assert said in err
    assert not (trained / "interpolated").exists()


def test_a_directory_that_is_no_run_is_bad_input(dph, tmp_path):
    code, _, err = dph("interpolate", tmp_path)
    assert code == 2
    assert "recipe.toml" in err


def test_a_run_whose_recipe_names_no_set_is_bad_input(dph, trained):
    recipe = trained / "recipe.toml"
    text = recipe.read_text()
    start = text.index("[data.sets")
    end = text.index("\n[", start + 1)
    while text[end + 1 :].startswith("[data.sets"):
        end = text.index("\n[", end + 1)
    recipe.write_text(text[:start] + text[end + 1 :])
    code, _, err = dph("interpolate", trained)
    assert code == 2
    assert "nothing to evaluate on" in err


def test_a_run_that_is_not_finished_is_told(dph, trained, caplog):
    assert dph("interpolate", trained, "--weights", "0.5", "--set", "train.steps=9")[0] == 0
    (message,) = caplog.messages
    assert f"{trained} is unfinished, after 4 of 9 steps" in message

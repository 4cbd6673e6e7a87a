import json
import sys

import pytest

from dph.errors import DataError, SettingsError
from dph.settings import TrackingSettings, resolve_recipe
from dph.training.tracking import MetricsLog, open_trackers, read_metrics


@pytest.fixture
def recipe():
    return resolve_recipe(
        {
            "model": {"path": "m"},
            "data": {"train": "t.jsonl", "sets": {"dev": "d.jsonl"}},
            "evaluate": {"k": [1, 2]},
        }
    )


def test_each_step_is_one_json_line_and_what_is_not_finite_is_null(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", step=0)
    log.write({"step": 1, "reward": 0.5, "divergence": float("nan"), "effective_styles": None})
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 1, "reward": 0.5, "divergence": None, "effective_styles": None}
    ]


def test_lines_after_the_checkpoint_are_cut_off_and_half_lines_too(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    MetricsLog(path, step=2)
    assert [line["step"] for line in read_metrics(path)] == [1, 2]


def test_what_becomes_known_later_is_added_to_the_line_of_its_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, step=0)
    for step in (1, 2):
        log.write({"step": step, "reward": 0.5})
    log.amend(1, {"eval/dev/mean": 0.25, "eval/dev/entropy": float("nan")})
    log.amend(1, {"eval/dev/mean": 0.75})
    log.amend(0, {"eval/dev/mean": 0.1})  # the initial policy has no line
    assert read_metrics(path) == [
        {"step": 1, "reward": 0.5, "eval/dev/mean": 0.75, "eval/dev/entropy": None},
        {"step": 2, "reward": 0.5},
    ]


def test_no_metrics_yet_is_an_empty_list(tmp_path):
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_without_trackers_nothing_is_written(tmp_path, recipe):
    trackers = open_trackers(TrackingSettings(), recipe, tmp_path)
    trackers.log({"step": 1, "reward": 0.5}, step=1)
    trackers.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_metrics_and_the_settings(tmp_path, recipe):
    pytest.importorskip("tensorboard")
    trackers = open_trackers(TrackingSettings(to=("tensorboard",)), recipe, tmp_path)
    trackers.log({"step": 1, "reward": 0.5, "effective_styles": None}, step=1)
    trackers.close()
    files = list((tmp_path / "logs").rglob("events*"))
    assert files
    assert any(b"reward" in file.read_bytes() for file in files)


def test_missing_accelerate_names_the_extra(tmp_path, recipe, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(SettingsError, match=r"install dph-rl\[wandb\]"):
        open_trackers(TrackingSettings(to=("wandb",)), recipe, tmp_path)


def test_a_missing_tracker_names_the_extra(tmp_path, recipe):
    pytest.importorskip("accelerate")
    with pytest.raises(SettingsError, match=r"'trackio'.*install dph-rl\[trackio\]"):
        open_trackers(TrackingSettings(to=("trackio",)), recipe, tmp_path)


def test_metrics_are_plain_json(tmp_path):
    MetricsLog(tmp_path / "m.jsonl", step=0).write({"step": 1, "tokens": 3})
    assert json.loads((tmp_path / "m.jsonl").read_text()) == {"step": 1, "tokens": 3}


@pytest.mark.parametrize("line", ["garbage", "[]", "{}", '{"step": null}'])
def test_a_damaged_line_of_metrics_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + line + '\n{"step": 3}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2 is damaged"):
        read_metrics(path)

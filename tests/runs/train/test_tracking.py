import json
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from dph.errors import DataError, SettingsError
from dph.recipe import TrackingSettings, resolve_recipe
from dph.runs.directory import read_metrics
from dph.runs.train.kept_samples import COLUMNS, SampleTable
from dph.runs.train.tracking import MetricsLog, open_trackers, peak_memory, shown_answers


@pytest.fixture
def recipe():
    return resolve_recipe(
        {
            "model": {"path": "m"},
            "data": {"train": "t.jsonl", "sets": {"dev": "d.jsonl"}},
            "evaluate": {"k": [1, 2]},
        }
    )


def test_each_step_is_one_json_line_to_which_is_added_what_becomes_known_later(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", step=0)
    log.write({"step": 1, "reward": 0.5, "divergence": float("nan"), "effective_styles": None})
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 1, "reward": 0.5, "divergence": None, "effective_styles": None}
    ]
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


def test_half_lines_and_lines_after_the_checkpoint_are_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    MetricsLog(path, step=2)
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
    path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    assert read_metrics(path) == [{"step": 1, "reward": 0.5}]
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_without_trackers_nothing_is_written(tmp_path, recipe):
    trackers = open_trackers(TrackingSettings(), recipe, tmp_path)
    trackers.log({"step": 1, "reward": 0.5}, step=1)
    trackers.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_metrics_and_no_tables(tmp_path, recipe):
    pytest.importorskip("tensorboard")
    trackers = open_trackers(TrackingSettings(to=("tensorboard",)), recipe, tmp_path)
    trackers.log({"step": 1, "reward": 0.5, "effective_styles": None}, step=1)
    trackers.log_tables([answers("a text that nobody looks for")], step=4)
    trackers.close()
    files = [path.read_bytes() for path in (tmp_path / "logs").rglob("events*")]
    assert any(b"reward" in content for content in files)
    assert not any(b"a text that nobody" in content for content in files)


class FakeTracker:
    """Takes down what it is told; as accelerate's trackers of W&B and trackio are called."""

    requires_logging_directory = False
    made: ClassVar[list] = []

    def __init__(self, project, *, name):
        self.project, self.run, self.logged, self.tables, self.ended = project, name, [], [], False
        self.made.append(self)

    def start(self):
        pass

    def store_init_configuration(self, values):
        self.settings = values

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.ended = True


class FakeWandB(FakeTracker):
    name = "wandb"

    def log_table(self, name, *, columns, data, step):
        self.tables.append((step, name, columns, data))


class FakeTrackio(FakeTracker):
    name = "trackio"


@pytest.fixture
def fakes(monkeypatch):
    tracking = pytest.importorskip("accelerate.tracking")
    monkeypatch.setattr(FakeTracker, "made", [])
    kinds = {"wandb": FakeWandB, "trackio": FakeTrackio}
    for name, kind in kinds.items():
        monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, name, kind)
    table = SimpleNamespace(Table=lambda columns, data: (columns, data))
    monkeypatch.setitem(sys.modules, "trackio", table)
    return FakeTracker.made


def answers(text="SELECT `a`", count=1):
    row = (4, "p0", "which?", "greedy", text, "WRONG", 0.0, "", "no")
    return SampleTable(name="samples/dev", rows=[row], answers=count)


def test_answers_go_to_wandb_and_trackio_as_tables(tmp_path, recipe, fakes):
    settings = TrackingSettings(to=("wandb", "trackio"), project="mine")
    trackers = open_trackers(settings, recipe, tmp_path)
    trackers.log_tables([answers(count=7)], step=4)
    trackers.close()
    wandb, trackio = fakes
    assert (wandb.project, wandb.run) == ("mine", recipe.name)
    ((step, name, columns, data),) = wandb.tables
    assert (step, name, columns) == (4, "samples/dev", list(COLUMNS))
    assert data[0][4] == "SELECT `a`"
    assert data[1][1] == "1 of 7 answers are in this table"
    ((step, values),) = trackio.logged
    assert step == 4
    columns, data = values["samples/dev"]
    assert columns == list(COLUMNS)
    assert data[0][:2] == [4, "```\np0\n```"]
    assert wandb.ended
    assert trackio.ended


def test_trackio_gets_texts_as_code_that_they_cannot_leave(tmp_path, recipe, fakes):
    trackers = open_trackers(TrackingSettings(to=("trackio",)), recipe, tmp_path)
    trackers.log_tables([answers("```\n![](http://elsewhere)\n````")], step=4)
    (_, data) = fakes[0].logged[0][1]["samples/dev"]
    assert data[0][4] == "`````\n```\n![](http://elsewhere)\n````\n`````"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_itself_keeps_the_table_offline(tmp_path, recipe, monkeypatch):
    pytest.importorskip("wandb", reason="needs wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    trackers = open_trackers(TrackingSettings(to=("wandb",)), recipe, tmp_path)
    trackers.log({"step": 4, "reward": 0.5}, step=4)
    trackers.log_tables([answers(count=7)], step=4)
    trackers.close()
    (path,) = tmp_path.glob("wandb/offline-run-*/files/media/table/samples/*.json")
    table = json.loads(path.read_text())
    assert table["columns"] == list(COLUMNS)
    assert table["data"] == answers(count=7).lines


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trackio_itself_keeps_the_table_on_this_machine(tmp_path, recipe, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))  # read when it is imported
    pytest.importorskip("trackio", reason="needs trackio")
    trackers = open_trackers(TrackingSettings(to=("trackio",), project="mine"), recipe, tmp_path)
    trackers.log_tables([answers(count=7)], step=4)
    trackers.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("mine*"))
    assert b"1 of 7 answers are in this table" in kept


def test_answers_are_asked_for_where_a_tracker_shows_them():
    assert shown_answers(TrackingSettings()) == 0
    assert shown_answers(TrackingSettings(to=("tensorboard",))) == 0
    assert shown_answers(TrackingSettings(to=("tensorboard", "wandb"))) == 256
    assert shown_answers(TrackingSettings(to=("trackio",), answers=0)) == 0


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("accelerate", r"install dph-rl\[wandb\]"),
        ("trackio", r"'trackio'.*install dph-rl\[trackio\]"),
    ],
)
def test_a_missing_tracker_names_the_extra(tmp_path, recipe, monkeypatch, missing, message):
    pytest.importorskip("accelerate")
    monkeypatch.setitem(sys.modules, missing, None)
    to = "trackio" if missing == "trackio" else "wandb"
    with pytest.raises(SettingsError, match=message):
        open_trackers(TrackingSettings(to=(to,)), recipe, tmp_path)


@pytest.mark.parametrize("line", ["garbage", "[]", "{}", '{"step": null}'])
def test_a_damaged_line_of_metrics_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + line + '\n{"step": 3}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2 is damaged"):
        read_metrics(path)


def test_what_was_not_finite_is_null_whoever_wrote_it(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "entropy": NaN, "loss": Infinity}\n')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "entropy": None, "loss": None}]


def test_peak_memory_counts_bytes_that_were_held_once():
    held = b"x" * 2**28
    most = peak_memory()["peak_memory"]
    del held
    assert most >= 0.25
    # Linux counts pages in batches, so that a peak that is read later may be smaller by some.
    assert peak_memory()["peak_memory"] == pytest.approx(most, abs=2**-7)

"""Options of `dph run` for engines: each is a setting, and none does nothing."""

import pytest

from dph.cli.run import engine_overrides, require_engine_of_options


def test_an_option_is_the_setting_that_it_stands_for():
    found = engine_overrides("verl", nodes=2, gpus=None, address="head:6379")
    assert found == ["train.engine=verl", "verl.nodes=2", "verl.address=head:6379"]
    assert engine_overrides(None, nodes=None) == []


def test_an_option_of_an_engine_that_does_not_run_is_refused(dph, example, tmp_path):
    code, _, err = dph("run", example, "--nodes", 2, "--out", tmp_path / "run")
    assert code == 2
    assert "--nodes 2 belongs to the engine verl; train.engine is 'own'" in err
    assert not (tmp_path / "run").exists()
    require_engine_of_options("verl", nodes=2, gpus=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "ray"), "train.engine: Input should be 'own' or 'verl'"),
        (("--engine", "trl"), "dph.engines.trl.DPHTrainer (docs/tutorials/trl.md)"),
        (("--engine", "verl", "--set", "train.shared_prompts=never"), "train.shared_prompts"),
        (("--engine", "verl", "--nodes", "2"), "verl.nodes = 2 needs a Ray cluster"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(dph, example, tmp_path, options, said):
    code, _, err = dph("run", example, "--out", tmp_path / "run", *options)
    assert code == 2
    assert said in err
    assert not (tmp_path / "run").exists()


def test_commands_for_a_cluster_are_printed_without_the_engine(dph, example, tmp_path, monkeypatch):
    monkeypatch.setattr("dph.engines.stages.verl_stage.find_spec", lambda _: None)
    run = tmp_path / "run"
    words = ("run", example, "--out", run, "--engine", "verl")
    code, out, err = dph(*words, "--dry-run")
    assert code == 0, err
    assert out.startswith("# verl is not installed here")
    assert "python -P -m" in out.replace(" \\\n ", "")
    assert "dph.engines.verl.train" in out
    assert not run.exists()
    code, _, err = dph(*words)
    assert code == 2
    assert 'pip install "dph-rl[verl]"' in err
    assert not run.exists()

"""Additions to verl's start: a TRL without a critic, the environment of a cluster, a lost node."""

import sys
import threading
from importlib import import_module, reload
from itertools import chain, repeat

import pytest
from omegaconf import OmegaConf
from verl.models.transformers import monkey_patch
from verl.utils import import_utils

from dph.engines.verl import launch
from engines.verl.rows import make_model

CRITIC = "AutoModelForCausalLMWithValueHead"


@pytest.fixture
def beside_trl(tmp_path, monkeypatch):
    """Put a TRL with the given text in its place, for verl and for us."""

    def make(text):
        (tmp_path / "trl").mkdir()
        (tmp_path / "trl" / "__init__.py").write_text(text)
        for name in [name for name in sys.modules if name.partition(".")[0] == "trl"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(tmp_path)
        import_utils.is_trl_available.cache_clear()
        monkeypatch.setattr(monkey_patch, "is_trl_available", import_utils.is_trl_available)
        reload(import_module("dph.engines.verl.newer_trl"))

    yield make
    sys.modules.pop("trl", None)
    import_utils.is_trl_available.cache_clear()


def test_a_trl_without_a_critic_is_left_alone(beside_trl, monkeypatch):
    beside_trl("")
    monkey_patch.apply_monkey_patch(make_model(), use_remove_padding=False)
    # What verl does by itself; a release that no longer does needs no such module.
    monkeypatch.setattr(monkey_patch, "is_trl_available", lambda: True)
    with pytest.raises(ImportError, match=CRITIC):
        monkey_patch.apply_monkey_patch(make_model(), use_remove_padding=False)


def test_a_trl_with_its_critic_is_patched_as_ever(beside_trl):
    beside_trl(f"class {CRITIC}:\n    pass\n")
    monkey_patch.apply_monkey_patch(make_model(), use_remove_padding=False)
    assert "state_dict" in vars(getattr(sys.modules["trl"], CRITIC))


@pytest.mark.parametrize(
    ("given", "before"), [(None, []), ("mine", ["mine"]), (["a", "b"], ["a", "b"])]
)
def test_workers_import_it_after_the_users_own_modules(given, before):
    config = OmegaConf.create({"actor_rollout_ref": {"model": {"external_lib": given}}})
    launch._import_in_workers(config)
    assert config.actor_rollout_ref.model.external_lib == [*before, "dph.engines.verl.newer_trl"]


def test_a_cluster_is_told_where_the_log_is_unless_the_user_says_so(composed, monkeypatch):
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", "log.jsonl")
    monkeypatch.setenv("PYTHONPATH", "mine")
    own = "+ray_kwargs.ray_init.runtime_env.env_vars={PYTHONPATH: theirs, OTHER: a}"
    config = composed("dph_train", "dph.pool=pool", own)
    launch._forward_environment(config)
    assert config.ray_kwargs.ray_init.runtime_env.env_vars == {
        "VERL_FILE_LOGGER_PATH": "log.jsonl",
        "PYTHONPATH": "theirs",
        "OTHER": "a",
    }


def test_a_lost_node_ends_the_command_that_would_wait_for_its_answers(monkeypatch, capfd):
    first = [{"NodeID": name, "Alive": True, "NodeManagerAddress": name} for name in "ab"]
    first.append({"NodeID": "c", "Alive": False, "NodeManagerAddress": "c"})  # lost before
    looks = chain([first, first], repeat([first[0], {**first[1], "Alive": False}, first[2]]))
    ended = threading.Event()
    monkeypatch.setattr(launch, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(launch.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(launch.ray, "nodes", lambda: next(looks))
    monkeypatch.setattr(launch.os, "_exit", lambda _: ended.set())
    with launch.ending_with_a_node():
        assert ended.wait(30)
    assert "dph: Ray lost the node b; the same command continues" in capfd.readouterr().err

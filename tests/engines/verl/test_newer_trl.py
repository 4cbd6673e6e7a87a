"""verl's engine is built next to a TRL that has no critic any more."""

import sys
from importlib import import_module, reload

import pytest
from omegaconf import OmegaConf
from verl.models.transformers import monkey_patch
from verl.utils import import_utils

from dph.engines.verl.launch import _import_in_workers
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
    _import_in_workers(config)
    assert config.actor_rollout_ref.model.external_lib == [*before, "dph.engines.verl.newer_trl"]

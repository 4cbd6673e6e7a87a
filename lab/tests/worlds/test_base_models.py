from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dph.errors import ModelError, SettingsError
from lab.worlds.countdown import base_model as of_countdown
from lab.worlds.countdown.world import OTHERS, TRAINED
from lab.worlds.sql import base_model as of_sql


@pytest.fixture(scope="module", params=["countdown", "sql"])
def base(request, tmp_path_factory):
    """How the base model of a world is trained, here on few rows, and one that was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_countdown, "ROWS_PER_STEP", ((TRAINED, 8), (OTHERS, 4)))
        patch.setattr(of_sql, "POOL", 200)
        world = request.getfixturevalue("countdown" if request.param == "countdown" else "world")
        module = of_countdown if request.param == "countdown" else of_sql

        def train(directory, *, seed=0, steps=2, **more):
            module.train_base_model(world, directory, seed=seed, steps=steps, **more)

        trained = tmp_path_factory.mktemp("models") / "base"
        train(trained)
        yield SimpleNamespace(train=train, trained=trained)


def test_a_seed_gives_its_weights_whatever_torchs_own_numbers(base, tmp_path):
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    base.train(tmp_path / "again")
    assert torch.equal(torch.random.get_rng_state(), before)
    for name in ("model.safetensors", "tokenizer.json", "made_from.json"):
        assert (tmp_path / "again" / name).read_bytes() == (base.trained / name).read_bytes()
    base.train(tmp_path / "other", seed=1)
    weights = (tmp_path / "other" / "model.safetensors").read_bytes()
    assert weights != (base.trained / "model.safetensors").read_bytes()


def test_the_model_loads_the_usual_way_and_fits_its_tokenizer(base):
    model = AutoModelForCausalLM.from_pretrained(base.trained)
    tokenizer = AutoTokenizer.from_pretrained(base.trained)
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert 300_000 < model.num_parameters() < 450_000


def test_progress_counts_every_step_and_a_finished_model_is_kept(base, tmp_path):
    counted, weights = [], tmp_path / "base" / "model.safetensors"
    base.train(tmp_path / "base", on_progress=counted.append)
    assert counted == [1, 1]
    stamp = weights.stat().st_mtime_ns
    base.train(tmp_path / "base", on_progress=counted.append)
    assert counted == [1, 1, 2]
    assert weights.stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def test_a_directory_with_something_else_and_no_steps_are_refused(base, tmp_path):
    with pytest.raises(ModelError, match="choose another directory"):
        base.train(base.trained, steps=4)
    with pytest.raises(ModelError, match="made from None"):
        base.train(tmp_path)
    with pytest.raises(SettingsError, match="at least 1"):
        base.train(tmp_path / "base", steps=0)

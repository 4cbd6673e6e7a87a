"""The launch scripts give verl no setting that it does not have."""

import os
import subprocess
from pathlib import Path

import pytest

from dph.engines.verl.settings import presample_settings, train_settings

EXAMPLES = Path(__file__).parents[3] / "examples" / "verl"
PAPER = sorted(EXAMPLES.glob("paper-*.sh"))
VALIDATE = {"dph_presample": presample_settings, "dph_train": train_settings}


def commands(script, tmp_path):
    """The overrides of both commands, by the configuration that they go to."""
    printed = subprocess.run(
        ["bash", str(script), "trainer.total_training_steps=7"],
        env=os.environ | {"DPH_DRY_RUN": "1", "RUN": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {}
    for words in printed.split("python\n-m\ndph.engines.verl.")[1:]:
        name, *overrides = words.splitlines()
        found[f"dph_{name}"] = [o for o in overrides if not o.startswith("hydra.")]
    return found


def test_there_is_a_script_for_each_of_the_papers_settings():
    recipes = {path.stem for path in (EXAMPLES.parents[1] / "recipes").glob("paper-*.toml")}
    assert {path.stem for path in PAPER} == recipes
    assert len(PAPER) == 4


@pytest.mark.parametrize("script", PAPER, ids=lambda path: path.stem)
def test_its_commands_are_valid(script, tmp_path, composed):
    found = commands(script, tmp_path)
    assert set(found) == set(VALIDATE)
    for name, overrides in found.items():
        config = composed(name, *overrides)
        VALIDATE[name](config)
        assert config.data.train_batch_size == 128
        assert config.actor_rollout_ref.rollout.top_p == 0.95
    assert config.trainer.total_training_steps == 7
    assert config.dph.rehearsal_per_step == 256
    assert "Not run here" in script.read_text()


def test_a_finished_pool_is_not_made_again(tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "manifest.json").write_text("{}")
    assert set(commands(PAPER[0], tmp_path)) == {"dph_train"}

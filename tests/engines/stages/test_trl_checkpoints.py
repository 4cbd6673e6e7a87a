"""Checkpoints of TRL's own, whole or cut off by a kill."""

from dph.engines.stages.trl_stage import newest_step


def test_a_checkpoint_that_a_kill_cut_off_does_not_count(tmp_path):
    assert newest_step(tmp_path / "new") == 0
    for step in (8, 20, 40):
        (tmp_path / f"checkpoint-{step}").mkdir()
    (tmp_path / "checkpoint-8" / "trainer_state.json").touch()
    (tmp_path / "checkpoint-20" / "trainer_state.json").touch()
    (tmp_path / "checkpoint-40" / "model.safetensors").touch()  # its state is written last
    assert newest_step(tmp_path) == 20

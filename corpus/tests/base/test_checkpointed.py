from dph_corpus.base.checkpointed import newest_checkpoint


def test_the_newest_whole_checkpoint_is_found_and_others_are_removed(tmp_path):
    for step, whole in ((9, True), (10, True), (11, False)):
        directory = tmp_path / f"checkpoint-{step}"
        directory.mkdir()
        if whole:
            (directory / "whole").touch()
    assert newest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-11").exists()
    assert (tmp_path / "checkpoint-9").is_dir()


def test_without_a_whole_one_there_is_none(tmp_path):
    (tmp_path / "checkpoint-2").mkdir()
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "none") is None

import json
from hashlib import sha256

import pytest

from dph._base.import_path import load_callable
from dph.errors import DataError, SettingsError
from dph.quickstart import archive
from dph.quickstart.archive import ARCHIVE, DIGEST, TASKS, task_files, unpack
from dph.recipe import load_recipe
from dph.records import Outcome
from dph.tasks.problems import load_problems

LARGEST = 3_000_000


def test_the_archive_has_its_digest_and_is_small():
    content = ARCHIVE.read_bytes()
    assert sha256(content).hexdigest() == DIGEST
    assert len(content) <= LARGEST


@pytest.mark.parametrize("task", TASKS)
def test_each_task_is_whole_and_its_recipes_read_nothing_else(task, tmp_path):
    out = tmp_path / "out"
    unpack(task, out, seed=0)
    for path in sorted(out.glob("recipes/*.toml")):
        recipe = load_recipe(path)
        assert (recipe.name, recipe.method) == (path.stem, path.stem)
        sets = [each.path for each in recipe.data.sets.values()]
        for place in (recipe.model.path, recipe.data.train, *sets):
            assert out.resolve() in tmp_path.joinpath(place).resolve().parents
        assert len(list(load_problems(recipe.data.train))) == 600
    assert (out / "LICENSE").read_text()


def test_the_verifier_of_the_folder_grades_its_problems(tmp_path):
    unpack("countdown", tmp_path, seed=0)
    recipe = load_recipe(tmp_path / "recipes" / "grpo.toml")
    grade = load_callable(recipe.data.verifier, recipe.data.modules)
    problem = next(iter(load_problems(recipe.data.train)))
    assert (problem.answer["numbers"], problem.answer["target"]) == ([2, 2, 2, 1], 12)
    right = "2 * 2 = 4 , 2 + 1 = 3 , 4 * 3 = 12"
    assert grade(right, problem).outcome is Outcome.CORRECT
    assert grade(right.replace("= 12", "= 13"), problem).outcome is Outcome.WRONG


def test_a_tiny_folder_has_the_first_problems(tmp_path):
    unpack("sql", tmp_path / "whole", seed=0)
    unpack("sql", tmp_path / "tiny", seed=0, tiny=True)
    for path in (tmp_path / "tiny" / "problems").iterdir():
        whole = (tmp_path / "whole" / "problems" / path.name).read_text()
        assert whole.startswith(path.read_text())
        assert 0 < path.stat().st_size < len(whole)


def test_what_was_unpacked_is_kept_with_its_changes(tmp_path):
    unpack("countdown", tmp_path, seed=0)
    mine = tmp_path / "recipes" / "grpo.toml"
    mine.write_text("mine")
    unpack("countdown", tmp_path, seed=0)
    assert mine.read_text() == "mine"


def test_a_folder_that_was_not_finished_is_unpacked_again(tmp_path):
    unpack("countdown", tmp_path, seed=0)
    (tmp_path / archive.MADE_FROM).unlink()
    (tmp_path / "verifier.py").unlink()
    unpack("countdown", tmp_path, seed=0)
    assert (tmp_path / "verifier.py").read_bytes() == task_files("countdown")["verifier.py"]


@pytest.mark.parametrize("other", [{"seed": 1}, {"tiny": True}])
def test_another_quickstart_in_the_same_folder_is_refused(other, tmp_path):
    unpack("countdown", tmp_path, seed=0)
    with pytest.raises(DataError, match="choose another directory"):
        unpack("countdown", tmp_path, **{"seed": 0, **other})
    assert json.loads((tmp_path / archive.MADE_FROM).read_text())["seed"] == 0


def test_an_unknown_task_is_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match="no task 'chess'; choose one of countdown, sql"):
        unpack("chess", tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


def test_a_damaged_archive_is_refused(tmp_path, monkeypatch):
    damaged = tmp_path / "quickstart.tar"
    damaged.write_bytes(ARCHIVE.read_bytes()[:-1])
    monkeypatch.setattr(archive, "ARCHIVE", damaged)
    with pytest.raises(DataError, match="is damaged: its SHA-256 is"):
        unpack("countdown", tmp_path / "out", seed=0)

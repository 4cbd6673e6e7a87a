"""Training problems of a method on a small world, chosen by a function."""

import pytest

from dph.lab.study.execute import _Work
from dph.lab.study.sites import RunRequest
from dph.lab.worlds import world_kind
from dph.tasks.problems import load_problems

TRAIN = "dph.lab.worlds.sql.question_sets:more_across"


@pytest.fixture
def work(tmp_path):
    kind = world_kind("sql", 2)
    site = {"task": "sql", "edition": 2, "recipe": None, "base_steps": None}
    sizes = {name: getattr(kind.tiny, name) for name in ("train", "unlabelled")}
    sizes = {**dict.fromkeys(kind.sets, 8), **sizes}
    payload = {"work": str(tmp_path), "seed": 3, "site": {**site, "sizes": sizes}, "budget": {}}
    return _Work(payload)


def trained_on(work, settings):
    asked = RunRequest(method="grpo", settings=settings)
    return work.recipe(asked, name="run", pool="pool").data.train


def test_a_function_chooses_from_the_worlds_own_problems_and_its_unlabelled_ones(work):
    usual = load_problems(trained_on(work, {}))
    path = trained_on(work, {"data.train": TRAIN})
    found = load_problems(path)
    assert path.parent == work.directory
    assert found[: len(usual)] == usual
    assert {problem.answer["part"] for problem in found[len(usual) :]} == {"others"}
    assert len(found) == len(usual) + world_kind("sql", 2).tiny.unlabelled
    before = path.read_bytes()
    assert trained_on(work, {"data.train": TRAIN}) == path
    assert path.read_bytes() == before

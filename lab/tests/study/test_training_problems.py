"""Training problems of a method on a small world, chosen by a function."""

import pytest

from dph.errors import SettingsError
from dph.tasks.problems import load_problems
from lab.study.candidates import Candidate, Variants
from lab.study.execute import _Work
from lab.study.settings import BudgetSettings, MethodSettings
from lab.study.sites import RunRequest, Site
from lab.worlds import world_kind
from lab.worlds.sql import question_sets

TRAIN = "lab.worlds.sql.question_sets:more_across"


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


@pytest.mark.parametrize(
    ("method", "chosen", "why"),
    [
        ("grpo", "no_such_module:more", "cannot import 'no_such_module'"),
        ("dph_f", TRAIN, "choose a method that reads neither"),
        ("dph_broad", TRAIN, "choose a method that reads neither"),
    ],
)
def test_what_could_not_train_on_them_is_refused_before_a_run(method, chosen, why):
    settings = MethodSettings(name=method, settings={"data.train": chosen})
    site = Site(name="sql-2", task="sql", edition=2)
    with pytest.raises(SettingsError, match=why):
        Variants(BudgetSettings()).of(site, settings, Candidate())


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ([], "returned no problem"),
        (["text"], "must return Problems, got 'text'"),
        (None, "must return Problems, got None"),
    ],
)
def test_a_function_that_returns_something_else_is_told_by_its_name(
    work, monkeypatch, returned, why
):
    monkeypatch.setattr(question_sets, "more_across", lambda *_: returned)
    with pytest.raises(SettingsError, match=f"more_across' {why}"):
        trained_on(work, {"data.train": TRAIN})

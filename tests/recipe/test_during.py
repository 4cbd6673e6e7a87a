import pytest

from dph.errors import SettingsError
from dph.recipe import resolve_recipe

BASE = {"model": {"path": "m"}, "data": {"train": "t", "sets": {"dev": "d", "test": "e"}}}


def resolved(**evaluate):
    return resolve_recipe({**BASE, "evaluate": evaluate}).evaluate


def test_nothing_is_measured_during_training_unless_it_is_asked_for():
    settings = resolved()
    assert (settings.every, settings.keep_best, settings.token_details) == (0, None, 0)
    assert settings.best_by is None


def test_k_follows_the_samples_and_the_sets_are_all_of_them():
    assert resolved(every=5, during={"samples": 4}).during.k == (1,)
    assert resolved(every=5, during={"samples": 8}).during.k == (1, 8)
    assert resolved(every=5).during_sets(["dev", "test"]) == ("dev", "test")
    assert resolved(every=5, during={"sets": ["test"]}).during_sets(["dev", "test"]) == ("test",)


@pytest.mark.parametrize(
    ("score", "by"),
    [
        ("mean", (None, "mean")),
        ("pass_at_8", (None, "pass_at_8")),
        ("dev/greedy", ("dev", "greedy")),
    ],
)
def test_the_best_checkpoint_is_so_by_all_sets_or_by_one(score, by):
    assert resolved(every=1, keep_best=score).best_by == by


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"keep_best": "loss"}, "should be greedy, mean or pass_at_<k>, .*got 'loss'"),
        ({"keep_best": "mean"}, "keep_best='mean' needs every > 0"),
        ({"result": "best"}, "result='best' needs keep_best"),
        ({"result": "last"}, "'newest' or 'best'"),
        (
            {"every": 2000, "keep_best": "mean", "result": "best"},
            "evaluate.result='best' measures nothing with evaluate.every=2000, .*train.steps=",
        ),
        ({"every": 1, "keep_best": "pass_at_4"}, r"is not measured: during.k=\[1, 8\]"),
        (
            {"every": 1, "keep_best": "greedy", "during": {"greedy": False}},
            "is not measured: during.greedy=false",
        ),
        (
            {"every": 1, "keep_best": "train/mean"},
            "names the set 'train'; the measured sets are dev, test",
        ),
        ({"every": 1, "during": {"sets": ["x"]}}, "names 'x'; .* has: dev, test"),
        ({"during": {"samples": 2, "compared": 3}}, "compared=3, samples=2"),
        ({"during": {"samples": 2, "k": [4]}}, "got k=4, samples=2"),
        ({"samples": 2, "token_details": 3}, "token_details=3, samples=2"),
        ({"every": -1}, "every"),
    ],
)
def test_what_cannot_be_measured_is_refused(evaluate, message):
    with pytest.raises(SettingsError, match=message):
        resolved(**evaluate)


def test_without_a_set_there_is_nothing_to_measure():
    table = {**BASE, "data": {"train": "t"}, "evaluate": {"every": 3}}
    with pytest.raises(SettingsError, match=r"evaluate.every=3 measures nothing: name a set"):
        resolve_recipe(table)


@pytest.mark.parametrize("kept", ["all", "none", 1, 64])
def test_kept_samples_are_all_none_or_so_many_problems(kept):
    assert resolve_recipe({**BASE, "train": {"keep_samples": kept}}).train.keep_samples == kept


@pytest.mark.parametrize("kept", ["some", 0, -1, 1.5, True])
def test_other_amounts_of_kept_samples_are_refused(kept):
    with pytest.raises(SettingsError, match=r"keep_samples: should be 'all', 'none' or a num"):
        resolve_recipe({**BASE, "train": {"keep_samples": kept}})

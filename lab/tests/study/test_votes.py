"""What a study's rows say of the votes that a run learnt from."""

from dataclasses import replace
from pathlib import Path

import pytest

import study_stub
from dph.recipe import METHODS, merged, resolve_recipe
from lab.study.execute import votes
from lab.study.plan import set_names, value_of
from lab.study.rows import OF_VOTES, Score, read_row_files, write_row_file
from small_stores import write_store_of
from tiny_models import build_model

PAYLOAD = {"run": "a", "site": {"name": "w", "edition": 1}, "seed": 0}


def recipe_in(directory, method="dph_broad", **settings):
    stores = {
        name: {"file": "prompts.jsonl", "place": str(directory / name)}
        for name in METHODS[method].get("stores", {})
        if name != "after"
    }
    if method == "dph_broad":
        stores["after"] = {"file": "prompts.jsonl"}
    table = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}, "method": method}
    return resolve_recipe(merged({**table, "stores": stores} if stores else table, settings))


@pytest.fixture
def made(tmp_path):
    """A run whose stores are labelled: base answers right, those of the policy wrong."""
    write_store_of(build_model(), tmp_path / "broad", correct=[True, True, False])
    after = tmp_path / "run" / "consolidation" / "stores" / "after"
    write_store_of(build_model(), after, correct=[False] * 3, prompts=5)
    return tmp_path


def test_each_store_that_was_learnt_from_by_agreement_has_three_scores(made):
    found = list(votes(recipe_in(made), made / "run"))
    assert [(s.set, s.metric, s.problems) for s in found] == [
        *(("stores.broad", metric, 8) for metric in OF_VOTES),
        *(("stores.after", metric, 5) for metric in OF_VOTES),
    ]
    assert [s.value for s in found] == pytest.approx([1.0, 1.0, 2 / 3, 0.0, 1.0, 0.0])


def test_the_anchor_alone_has_the_vote_of_the_base_models_answers(made):
    recipe = recipe_in(made, consolidation={"updates": 0})
    assert {s.set for s in votes(recipe, made / "run")} == {"stores.broad"}


def test_without_labels_or_without_stores_there_is_none(tmp_path):
    write_store_of(build_model(), tmp_path / "broad")
    recipe = recipe_in(tmp_path, consolidation={"updates": 0})
    assert list(votes(recipe, tmp_path / "run")) == []
    assert list(votes(recipe_in(Path(), "grpo"), tmp_path / "run")) == []


def test_a_store_is_no_evaluation_set_and_its_scores_are_read_back(tmp_path):
    plain = study_stub.row_of(PAYLOAD)
    of_vote = Score(set="stores.after", metric="consensus", k=None, value=0.25, problems=9)
    row = replace(plain, scores=(*plain.scores, of_vote))
    assert set_names(row) == set_names(plain) == ("in_domain", "cross_domain")
    assert value_of(row, "greedy", set_names(row)) == value_of(plain, "greedy", set_names(plain))
    write_row_file(tmp_path, row)
    assert read_row_files(tmp_path) == {"a": row}

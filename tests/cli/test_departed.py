"""The directory of a run with stores: every verb that reads it says which commit still can."""

import pytest

from dph.recipe.departed import LEFT


@pytest.fixture(params=["stores", "consolidation"])
def old(request, tmp_path):
    """A run's directory with what only older versions write."""
    (tmp_path / "run" / request.param).mkdir(parents=True)
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1}\n')
    return tmp_path / "run" / request.param


@pytest.mark.parametrize(
    "words",
    [
        ("run", "RECIPE", "--out", "RUN"),
        ("train", "RECIPE", "--out", "RUN"),
        ("evaluate", "RECIPE", "--out", "RUN"),
        ("report", "RUN", "--out", "x.html"),
        ("compare", "RUN"),
    ],
    ids=lambda words: words[0],
)
def test_a_run_with_stores_is_refused_by_one_message(dph, example, old, words):
    names = {"RECIPE": example, "RUN": old.parent, "x.html": old.parent / "x.html"}
    before = sorted(old.parent.rglob("*"))
    code, _, err = dph(*(names.get(word, word) for word in words))
    assert code == 2
    assert LEFT.format(f"the directory {old}") in " ".join(err.split())
    assert sorted(old.parent.rglob("*")) == before


def test_the_recipe_of_such_a_run_is_refused_too(dph, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    (tmp_path / "recipe.toml").write_text(
        'method = "lmsi"\nmodel.path = "m"\ndata.train = "t.jsonl"\nstores.after.answers = 4\n'
    )
    code, _, err = dph("card", tmp_path)
    assert code == 2
    assert LEFT.format("method = 'lmsi'") in " ".join(err.split())

"""A small ablation: all arms and both models at equal tokens, and on after a kill."""

import json

import pytest

from corpus.tests.cookbook.test_run import function
from dph._base.files import read_json
from dph.errors import DataError
from dph.runs.progress import Silent
from dph_corpus import open_corpus
from dph_corpus.ablation.arms import FAMILIES
from dph_corpus.ablation.kneser_ney import recipe_of
from dph_corpus.ablation.run import ablate, read_rows
from dph_corpus.ablation.settings import AblationSettings
from dph_corpus.base.base import schedule_of
from dph_corpus.ingest.run import open_input

ARMS = FAMILIES["cleaning"].arms
SETTINGS = {
    "tokens": 512,
    "seeds": 2,
    "context": 32,
    "vocabulary": 300,
    "width": 16,
    "layers": 1,
    "heads": 2,
    "sequences_per_step": 2,
    "filter": "fixed",
}


@pytest.fixture
def corpora(tmp_path):
    def corpus(name, rows):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return open_input(path, tmp_path / name)

    rows = [{"path": f"{n}.py", "text": function(n)} for n in range(20)]
    rows += [{"path": f"tiny{n}.py", "text": f"x = {n}\n"} for n in range(8)]
    return (
        corpus("raw", rows),
        corpus("other", [{"path": f"{n}.py", "text": function(n)} for n in range(18, 26)]),
    )


def run(corpora, out, **changes):
    return ablate(*corpora, out, AblationSettings(**SETTINGS | changes), Silent())


def test_every_arm_learns_as_many_tokens_and_differences_are_paired_by_seed(corpora, tmp_path):
    found = run(corpora, tmp_path / "a", copies=0.6)
    arms = {arm: found["pools"][arm]["documents"] for arm in ARMS}
    assert arms["raw"] > arms["dedup"] == 28 > arms["both"] == 20
    assert arms["raw"] > arms["filter"] > arms["both"]
    assert found["heldout"]["code"]["repeated"] == 2
    for model in ("ngram", "transformer"):
        raw = found["models"][model]["raw"]["code"]
        assert raw["difference"] == {"mean": 0.0, "ci95": [0.0, 0.0]}
        for arm in ARMS:
            one = found["models"][model][arm]["code"]
            assert len(one["bits_per_byte"]) == 2
            pairs = zip(one["bits_per_byte"], raw["bits_per_byte"], strict=True)
            assert one["difference"]["mean"] == pytest.approx(sum(a - b for a, b in pairs) / 2)
    cells = sorted((tmp_path / "a" / "cells").iterdir())
    assert len(cells) == 16
    again = {path: path.stat().st_mtime_ns for path in cells[1:]}
    cells[0].unlink()
    assert run(corpora, tmp_path / "a", copies=0.6) == found
    assert again == {path: path.stat().st_mtime_ns for path in cells[1:]}
    assert read_json(tmp_path / "a" / "ablation.json") == found
    table = (tmp_path / "a" / "ablation.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in table[2:]] == [f"| {arm}" for arm in ARMS]


def test_arms_of_the_same_documents_are_measured_once(corpora, tmp_path):
    found = run(corpora, tmp_path / "a", models=["ngram"])
    assert found["rule"]["texts"]["raw"] == found["rule"]["texts"]["dedup"]
    assert len(list((tmp_path / "a" / "cells").iterdir())) == 4
    assert found["models"]["ngram"]["dedup"]["mean"]["difference"]["mean"] == 0.0


def test_heldout_code_that_the_corpus_has_too_does_not_count(corpora, tmp_path):
    with pytest.raises(DataError, match="has 0 files of code that are not in the corpus"):
        run((corpora[0], corpora[0]), tmp_path / "a", models=["ngram"])


def test_fewer_tokens_than_a_step_are_refused():
    with pytest.raises(ValueError, match="need tokens >= context"):
        AblationSettings(tokens=100)


def test_the_rule_is_locked_with_its_power_before_the_seeds_of_the_table(corpora, tmp_path):
    small = {"models": ["ngram"], "copies": 0.6, "arms": "deduplication", "development": 3}
    found = run(corpora, tmp_path / "a", **small)
    lock = read_json(tmp_path / "a" / "rule.lock.json")
    assert lock["rule_sha256"] == found["rule_sha256"]
    assert (lock["seeds_development"], lock["seeds_report"]) == ([1000, 1001, 1002], [0, 1])
    assert lock["power"]["ngram"]["file minus none"]["seeds"] == 3
    rows = read_rows(tmp_path / "a" / "rows.jsonl")
    first = [row["split"] for row in rows].index("report")
    assert first == 3 * 6
    assert {row["rule_sha256"] for row in rows[:first]} == {None}
    assert {row["rule_sha256"] for row in rows[first:]} == {found["rule_sha256"]}
    with pytest.raises(DataError, match="the rule changed after runs on the report seeds"):
        run(corpora, tmp_path / "a", **small | {"margin": 0.5})
    assert run(corpora, tmp_path / "a", **small) == found


def test_arms_of_annealing_learn_the_same_sequences_at_other_rates(corpora, tmp_path):
    small = {"models": ["transformer"], "arms": "annealing", "tokens": 640}
    found = run(corpora, tmp_path / "a", **small)
    assert found["pools"]["constant"] == found["pools"]["annealed"]
    arms = found["models"]["transformer"]
    one, other = (arms[arm]["code"]["bits_per_byte"] for arm in ("constant", "annealed"))
    assert all(a != b for a, b in zip(one, other, strict=True))
    pool = open_corpus(tmp_path / "a" / "pools" / "file")
    settings = AblationSettings(**SETTINGS | small)
    for annealed, last in ((False, 1), (True, 1 / 30)):
        recipe = recipe_of(pool, tmp_path, settings, 0, name="a", annealed=annealed)
        schedule = schedule_of(recipe)
        assert (schedule.steps, recipe.data.annealing) == (10, None)
        assert [schedule(7), schedule(9)] == pytest.approx([1, last])
    with pytest.raises(ValueError, match="models must be transformer, got ngram, transformer"):
        AblationSettings(arms="annealing")


def test_rows_of_report_seeds_stay_while_a_run_goes_through_development_again(
    corpora, tmp_path, monkeypatch
):
    small = {"models": ["ngram"], "arms": "filtering", "development": 2}
    run(corpora, tmp_path / "a", **small)
    rows = read_rows(tmp_path / "a" / "rows.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("dph_corpus.ablation.run.power_of", stop)
        with pytest.raises(KeyboardInterrupt):
            run(corpora, tmp_path / "a", **small)
    assert read_rows(tmp_path / "a" / "rows.jsonl") == rows
    with pytest.raises(DataError, match="the rule changed after runs on the report seeds"):
        run(corpora, tmp_path / "a", **small | {"margin": 0.5})


def stop(*_):
    raise KeyboardInterrupt

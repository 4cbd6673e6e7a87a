import json

import numpy as np
import pyarrow as pa
import pytest

from dph.errors import DataError, SettingsError
from dph.results.diagnosis.changes import Change
from dph.results.diagnosis.log_findings import Finding
from dph.results.diagnosis.run_diagnosis import diagnose, diagnosis_document
from results.diagnosis.models import Model, a_model, collapsed, samples_of, save_evaluation

PROBLEMS, SAMPLES = 300, 16


def named(found):
    """Everything that a diagnosis claims, a word each."""
    claims = []
    for name, one in found.sets.items():
        claims += [f"{name} {p.problem_id} {p.change}" for p in one.of(Change.LOST)]
        claims += [f"{name} {p.problem_id} {p.change}" for p in one.of(Change.GAINED)]
        claims += [f"{name} {style} died" for style in one.styles_died]
        claims += [f"{name} total" for total in one.totals.values() if total.named]
        claims += [f"{name} {row.feature.name}" for row in one.features if row.named]
    return claims


def evaluations(tmp_path, run, baseline, *, samples=SAMPLES, seed=0, name="dev"):
    save_evaluation(tmp_path / "run", samples_of(*run.drawn(samples, 2 * seed), set_name=name))
    save_evaluation(
        tmp_path / "base", samples_of(*baseline.drawn(samples, 2 * seed + 1), set_name=name)
    )
    return tmp_path / "run", tmp_path / "base"


@pytest.mark.slow
def test_a_run_compared_with_itself_finds_nothing_in_at_least_95_of_100_seeds(tmp_path):
    """At the 5% level, over two sets and every question."""
    models = {name: a_model(150, seed=i) for i, name in enumerate(("dev", "test"))}
    clean = 0
    for seed in range(100):
        tables = [
            [
                samples_of(*m.drawn(SAMPLES, 1000 + 4 * seed + 2 * i + side), set_name=name)
                for i, (name, m) in enumerate(models.items())
            ]
            for side in (0, 1)
        ]
        run, base = (
            save_evaluation(tmp_path / side, *of_side)
            for side, of_side in zip(("run", "base"), tables, strict=True)
        )
        clean += not named(diagnose(run, base, fdr=0.05, resamples=1))
    assert clean >= 95


@pytest.mark.slow
def test_planted_losses_are_found_with_at_most_a_tenth_of_false_ones(tmp_path):
    """Twenty problems, of those solved at least half of the time, are answered wrong."""
    model = a_model(PROBLEMS)
    chance = (model.shares * model.chances).sum(axis=1)
    shares_found, shares_false = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        planted = rng.choice(np.flatnonzero(chance >= 0.5), 20, replace=False)
        style, right = model.drawn(SAMPLES, 10_000 + seed)
        right[planted] = False
        run = save_evaluation(tmp_path / "run", samples_of(style, right))
        base = save_evaluation(tmp_path / "base", samples_of(*model.drawn(SAMPLES, 20_000 + seed)))
        found = {
            one.problem_id for one in diagnose(run, base, resamples=1).sets["dev"].of(Change.LOST)
        }
        true = {f"p{i:04d}" for i in planted}
        shares_found.append(len(found & true) / 20)
        shares_false.append(len(found - true) / max(1, len(found)))
    assert max(shares_false) <= 0.1
    assert np.mean(shares_found) >= 0.8  # of 8 right answers and none of 16, p is 0.0012


def test_a_collapse_is_told_as_what_it_is(tmp_path):
    base = a_model(PROBLEMS)
    found = diagnose(*evaluations(tmp_path, collapsed(base, 0.985), base)).sets["dev"]
    assert found.styles_died == ["b", "c", "d"]
    assert found.of(Change.LOST)
    for one in found.pass_at_k.values():
        parts = one.parts
        assert parts["total"].mean == pytest.approx(one.run - one.baseline, abs=1e-9)
        assert parts["total"].mean == pytest.approx(
            sum(parts[p].mean for p in ("styles_died", "certainty", "moved")), abs=1e-9
        )
        assert parts["styles_died"].hi < 0
    assert found.outcomes["run_lost"].get("CORRECT", 0) < found.outcomes["baseline_lost"]["CORRECT"]


def test_different_numbers_of_samples_are_compared_and_the_fewer_are_split(tmp_path):
    model = a_model(30)
    run = save_evaluation(tmp_path / "run", samples_of(*model.drawn(8, 0)))
    base = save_evaluation(tmp_path / "base", samples_of(*model.drawn(32, 1)))
    found = diagnose(run, base).sets["dev"]
    assert (found.samples, found.baseline_samples, found.split_samples) == (8, 32, 8)
    assert list(found.pass_at_k) == [8]


def with_recipe(run, problems):
    run.joinpath("recipe.toml").write_text(
        '[model]\npath = "m"\n[data]\ntrain = "p.jsonl"\nsets.dev = "p.jsonl"\n'
    )
    rows = [
        json.dumps({"problem_id": one, "prompt": "x", **rest}) for one, rest in problems.items()
    ]
    run.joinpath("p.jsonl").write_text("\n".join(rows) + "\n")


def test_the_lost_are_told_to_share_what_they_share(tmp_path):
    model = a_model(120)
    easy = Model(shares=model.shares, chances=np.full(model.chances.shape, 0.9))
    forgot = Model(shares=model.shares, chances=easy.chances * (np.arange(120) >= 15)[:, None])
    run, base = evaluations(tmp_path, forgot, easy)
    with_recipe(
        run, {f"p{i:04d}": {"db": "railway" if i < 20 else f"db{i % 4}"} for i in range(120)}
    )
    found = diagnose(run, base).sets["dev"]
    assert len(found.of(Change.LOST)) == 15
    assert [row.feature.name for row in found.features if row.named] == ["db = railway"]
    (row, *_) = found.features
    assert (row.lost_with, row.having, row.lost_without) == (15, 20, 0)


def test_a_diagnosis_notes_that_problems_or_a_log_are_missing_and_reads_the_log(tmp_path):
    model = a_model(40)
    run, base = evaluations(tmp_path, model, model)
    assert any("no recipe.toml" in note for note in diagnose(run, base).notes)
    with_recipe(run, {"p0000": {}})
    assert any("39 of its prompts are in no file" in n for n in diagnose(run, base).notes)
    model = a_model(20)
    run, base = evaluations(tmp_path, model, model)
    assert any("no metrics.jsonl" in note for note in diagnose(run, base).notes)
    run.joinpath("metrics.jsonl").write_text(
        '{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.9}\n'
    )
    found = diagnose(run, base)
    assert [one.about for one in found.log] == ["steps", "reward"]
    assert isinstance(found.log[0], Finding)


def test_problems_that_cannot_be_graded_are_left_out_of_both_and_named(tmp_path):
    model = a_model(20)
    style, right = model.drawn(8, 0)
    table = samples_of(style, right)
    outcome = table["outcome"].to_pylist()
    outcome[3] = "BAD_GOLD"
    place = table.schema.get_field_index("outcome")
    run = save_evaluation(tmp_path / "run", table.set_column(place, "outcome", pa.array(outcome)))
    base = save_evaluation(tmp_path / "base", samples_of(*model.drawn(8, 1)))
    found = diagnose(run, base)
    assert found.left_out == {"dev": ("p0000",)}
    assert len(found.sets["dev"].problems) == 19


def test_problems_that_only_one_of_the_two_has_are_named(tmp_path):
    files = [tmp_path / "run.jsonl", tmp_path / "base.jsonl"]
    for path, ids in zip(files, ("abc", "bcd"), strict=True):
        rows = [{"problem_id": one, "correct": right} for one in ids for right in (0, 1)]
        path.write_text("\n".join(map(json.dumps, rows)))
    assert diagnose(*files, ks=[1]).left_out == {"answers": ("a", "d")}


def test_sets_are_chosen_and_those_of_one_side_are_noted(tmp_path):
    model = a_model(10)
    both, only = (samples_of(*model.drawn(4, 0), set_name=name) for name in ("dev", "more"))
    run = save_evaluation(tmp_path / "run", both, only)
    base = save_evaluation(tmp_path / "base", samples_of(*model.drawn(4, 1)))
    found = diagnose(run, base)
    assert list(found.sets) == ["dev"]
    assert any("'more' was evaluated for one of the two only" in note for note in found.notes)
    with pytest.raises(DataError, match="was evaluated on dev, not on 'more'"):
        diagnose(run, base, sets=["more"])


def test_what_cannot_be_diagnosed_is_refused(tmp_path):
    model = a_model(10)
    run, base = evaluations(tmp_path, model, model, samples=4)
    with pytest.raises(SettingsError, match="between 0 and 1, got 0"):
        diagnose(run, base, fdr=0)
    with pytest.raises(SettingsError, match="k=5"):
        diagnose(run, base, ks=[5])
    other = save_evaluation(tmp_path / "other", samples_of(*model.drawn(4, 0), set_name="else"))
    with pytest.raises(DataError, match="no set to compare them on"):
        diagnose(run, other)
    fewer = save_evaluation(tmp_path / "fewer", samples_of(*a_model(9).drawn(4, 0)))
    with pytest.raises(DataError, match="cannot be compared problem by problem"):
        diagnose(run, fewer)


def test_choosing_a_set_changes_no_verdict_on_it(tmp_path):
    """A loss that is clear among one set's problems and not among those of five."""
    before = {f"s{i}": a_model(40, seed=i) for i in range(5)}
    for side, first in (("base", 0), ("run", 50)):
        tables = [
            samples_of(*m.drawn(12, seed), set_name=name)
            for seed, (name, m) in enumerate(before.items(), start=first)
        ]
        save_evaluation(tmp_path / side, *tables)
    both = tmp_path / "run", tmp_path / "base"
    whole = diagnose(*both, fdr=0.9, resamples=1)
    alone = diagnose(*both, fdr=0.9, sets=["s3"], resamples=1)
    assert list(alone.sets) == ["s3"]
    assert alone.levels == whole.levels
    assert [p.change for p in alone.sets["s3"].problems] == [
        p.change for p in whole.sets["s3"].problems
    ]


def test_a_diagnosis_is_plain_json_whose_parts_of_the_problems_are_those_of_the_set(tmp_path):
    base = a_model(60)
    found = diagnose(*evaluations(tmp_path, collapsed(base, 0.97), base))
    document = diagnosis_document(found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    of_set = document["sets"]["dev"]
    assert document["schema"] == 1
    assert set(document["levels"]) == {"lost", "gained", "styles", "totals", "features"}
    assert len(of_set["problems"]) == sum(of_set["counts"].values()) == 60
    assert of_set["counts"]["lost"] == len(found.sets["dev"].of(Change.LOST))
    assert [one["style"] for one in of_set["styles"]] == ["a", "b", "c", "d"]
    assert set(of_set["totals"]) == {"correct_answers", "solved_before_alone", "solved_after_alone"}
    for k, one in of_set["pass_at_k"].items():
        for part in ("total", "styles_died", "certainty", "moved"):
            values = [problem["pass_at_k"][k][part] for problem in of_set["problems"]]
            assert np.mean(values) == pytest.approx(one["parts"][part]["mean"], abs=1e-12)
        lost = [p["pass_at_k"][k]["total"] for p in of_set["problems"] if p["change"] == "lost"]
        assert np.mean(lost) == pytest.approx(one["of_lost"]["total"], abs=1e-12)

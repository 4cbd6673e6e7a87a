import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from dph._base.files import read_json
from dph.errors import DataError
from dph.results.paper_models import FigureRequest, full_summary, read_models
from dph.runs.evaluate.metrics import effective_styles
from dph.runs.evaluate.samples_file import read_samples, read_scores
from report_runs import make_runs

SMALL = {"in_domain": 12, "cross_domain": 5}


def test_what_runs_began_with_comes_by_itself_and_first(small_runs):
    found = read_models(FigureRequest(places=[small_runs]))
    assert [model.name for model in found.models] == ["base", "dph_f", "grpo"]
    assert [model.is_base for model in found.models] == [True, False, False]
    assert found.sets == list(SMALL)
    again = read_models(FigureRequest(places=[small_runs / "grpo", small_runs / "base"]))
    assert [model.name for model in again.models] == ["base", "grpo"]


def test_values_are_those_of_evaluation_json_with_intervals_around_them(small_runs):
    found = {
        model.name: model
        for model in read_models(FigureRequest(places=[small_runs]), retention_k=4).models
    }
    for name in ("base", "grpo"):
        for of, wanted in read_json(small_runs / name / "evaluation.json")["sets"].items():
            mine = found[name].sets[of]
            for key in ("greedy", "mean", "keep", "explore", "effective_styles", "styles"):
                assert mine[key] == wanted[key], key
            for k, value in wanted["pass_at_k"].items():
                assert mine["pass_at_k"][k] == value
    for model in found.values():
        for summary in model.sets.values():
            for metric, (low, high) in summary["ci95"].items():
                value = (
                    summary["pass_at_k"][metric.removeprefix("pass_at_")]
                    if metric.startswith("pass_at_")
                    else summary[metric]
                )
                # A resample has a little fewer styles than the problems that it is drawn from.
                assert low - 0.05 <= value <= high + 0.05, metric
            assert {"greedy", "mean", "keep", "effective_styles"} <= set(summary["ci95"])


def test_intervals_of_styles_are_percentiles_of_resampled_problems(small_runs):
    scores = read_scores(small_runs / "dph_f" / "samples.parquet")["in_domain"]
    table = read_samples(small_runs / "dph_f" / "samples.parquet")
    made = full_summary(table, "in_domain", scores, None, retention_k=4, seed=3)
    by_problem = {}
    for row in table.to_pylist():
        if row["set"] == "in_domain" and row["sample_index"] >= 0:
            by_problem.setdefault(row["problem_id"], []).append(row["style"])
    answers = [by_problem[problem] for problem in scores.problem_ids]
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, len(answers), size=(2000, len(answers)))
    values = []
    for resample in drawn:
        styles = [style for i in resample for style in answers[i]]
        values.append(effective_styles({s: styles.count(s) / len(styles) for s in set(styles)}))
    wanted = np.quantile(values, [0.025, 0.975])
    assert made["ci95"]["effective_styles"] == pytest.approx(list(wanted), abs=1e-9)


def test_seeds_of_one_method_are_one_model_with_t_intervals(tmp_path):
    runs = make_runs(tmp_path / "runs", sets=SMALL, seeds=(0, 1, 2))
    found = read_models(FigureRequest(places=[runs]))
    assert [(model.name, model.runs) for model in found.models] == [
        ("base", 1),
        ("dph_f", 3),
        ("grpo", 3),
    ]
    apart = read_models(FigureRequest(places=[runs], apart=True))
    values = [model.sets["in_domain"]["greedy"] for model in apart.models if model.method == "grpo"]
    mine = found.models[2].sets["in_domain"]
    assert mine["greedy"] == pytest.approx(np.mean(values))
    half = 4.302652729911275 * np.std(values, ddof=1) / math.sqrt(3)
    low, high = mine["ci95"]["greedy"]
    assert low == pytest.approx(max(0, np.mean(values) - half))
    assert high == pytest.approx(min(1, np.mean(values) + half))
    assert len(apart.models) == 7


def test_seeds_with_worlds_of_their_own_are_seeds_and_two_runs_of_one_seed_never_are(tmp_path):
    places = [make_runs(tmp_path / f"q{seed}", sets=SMALL, seeds=(seed,)) for seed in (0, 1)]
    found = read_models(FigureRequest(places=places))
    assert [(model.name, model.runs) for model in found.models] == [
        ("base", 1),  # report_runs gives both base models one digest: they are copies
        ("dph_f", 2),
        ("grpo", 2),
    ]
    places = [make_runs(tmp_path / name, sets=SMALL) for name in "ab"]
    names = [model.name for model in read_models(FigureRequest(places=[*places])).models]
    assert names == ["base", "a/dph_f", "b/dph_f", "a/grpo", "b/grpo"]


def test_an_unknown_set_and_runs_that_were_not_evaluated_are_named(small_runs, tmp_path):
    with pytest.raises(DataError, match="evaluated on 'mine', only on in_domain, cross_domain"):
        read_models(FigureRequest(places=[small_runs], sets=["mine"]))
    assert read_models(FigureRequest(places=[small_runs], sets=["cross_domain"])).sets == [
        "cross_domain"
    ]
    runs = Path(shutil.copytree(small_runs, tmp_path / "runs"))
    (runs / "grpo" / "samples.parquet").unlink()
    notes = read_models(FigureRequest(places=[runs / "grpo", runs / "dph_f"])).notes
    assert notes == (f"{runs / 'grpo'}: not evaluated",)

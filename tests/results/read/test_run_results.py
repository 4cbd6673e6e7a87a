import json

import numpy as np
import pytest

from dph.errors import DataError
from dph.results.read.run_results import RunResults
from results.diagnosis.models import samples_of, save_evaluation

RIGHT = np.array([[1, 0], [1, 1]], dtype=bool)
TABLE = samples_of(np.zeros((2, 2), int), RIGHT)


def evaluation(directory, *, model=None):
    save_evaluation(directory, TABLE)
    if model is not None:
        (directory / "evaluation.json").write_text(
            json.dumps({"model": str(model), "samples": 2, "sets": {}})
        )
    return directory


def recipe(directory, problems="problems.jsonl"):
    (directory / "recipe.toml").write_text(
        f'[model]\npath = "model"\n[data]\ntrain = "{problems}"\nsets.dev = "{problems}"\n'
    )
    (directory / "model").mkdir(exist_ok=True)
    rows = [{"problem_id": f"p{i:04d}", "prompt": "x", "answer": "1"} for i in range(2)]
    (directory / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory / "model"


def test_another_to_compare_with_may_be_named_where_no_base_is_found(tmp_path):
    run = evaluation(tmp_path / "run")
    model = recipe(run)
    evaluation(tmp_path / "base", model=tmp_path / "other")
    with pytest.raises(DataError, match=r"no evaluation of the initial policy .*--against"):
        RunResults(run).baseline()
    assert RunResults(run).baseline(tmp_path / "base").path == tmp_path / "base"
    beside = evaluation(tmp_path / "base", model=model)
    assert RunResults(run).baseline().path == beside


def test_a_samples_file_stands_for_its_evaluation(tmp_path):
    run, other = evaluation(tmp_path / "run"), evaluation(tmp_path / "other")
    results = RunResults(run)
    baseline = results.baseline(other / "samples.parquet")
    assert baseline.samples == other / "samples.parquet"
    assert results.samples == run / "samples.parquet"
    assert results.log() == baseline.log() == []


def test_the_recipe_of_another_models_evaluation_is_that_of_its_run(tmp_path):
    run = evaluation(tmp_path / "run")
    recipe(run)
    of_model = evaluation(run / "models" / "step_000040")
    results = RunResults(of_model)
    assert set(results.problems("dev")) == {"p0000", "p0001"}
    with pytest.raises(DataError, match="names no set 'test'"):
        results.problems("test")


def test_what_was_not_evaluated_has_no_recipe_or_is_the_same_is_refused(tmp_path):
    results = RunResults(evaluation(tmp_path / "a" / "run"))
    with pytest.raises(DataError, match=r"no recipe\.toml"):
        results.problems("dev")
    run = evaluation(tmp_path / "run")
    with pytest.raises(DataError, match="nothing was not evaluated"):
        RunResults(tmp_path / "nothing").baseline(run)
    with pytest.raises(DataError, match="other was not evaluated"):
        RunResults(run).baseline(tmp_path / "other")
    with pytest.raises(DataError, match="compared with itself"):
        RunResults(run).baseline(run / "samples.parquet")

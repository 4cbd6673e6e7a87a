import json

import numpy as np
import pytest

from dph.results.diagnosis import Change, diagnose, diagnosis_document
from results.diagnosis.models import Model, a_model, samples_of, save_evaluation


@pytest.fixture
def found(tmp_path):
    base = a_model(60)
    shares = np.tile([0.97, 0.01, 0.01, 0.01], (60, 1))
    run = Model(shares=shares, chances=base.chances)
    return diagnose(
        save_evaluation(tmp_path / "run", samples_of(*run.drawn(16, 0))),
        save_evaluation(tmp_path / "base", samples_of(*base.drawn(16, 1))),
    )


def test_a_diagnosis_is_plain_json_and_nothing_is_lost_on_the_way(found):
    document = diagnosis_document(found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    of_set = document["sets"]["dev"]
    assert document["schema"] == 1
    assert set(document["levels"]) == {"lost", "gained", "styles", "totals", "features"}
    assert len(of_set["problems"]) == sum(of_set["counts"].values()) == 60
    assert of_set["counts"]["lost"] == len(found.sets["dev"].of(Change.LOST))
    assert [one["style"] for one in of_set["styles"]] == ["a", "b", "c", "d"]
    assert set(of_set["totals"]) == {
        "correct_answers",
        "solved_before_alone",
        "solved_after_alone",
    }


def test_the_parts_of_the_problems_are_those_of_the_set(found):
    of_set = diagnosis_document(found)["sets"]["dev"]
    for k, one in of_set["pass_at_k"].items():
        for part in ("total", "styles_died", "certainty", "moved"):
            values = [problem["pass_at_k"][k][part] for problem in of_set["problems"]]
            assert np.mean(values) == pytest.approx(one["parts"][part]["mean"], abs=1e-12)
        lost = [p["pass_at_k"][k]["total"] for p in of_set["problems"] if p["change"] == "lost"]
        assert np.mean(lost) == pytest.approx(one["of_lost"]["total"], abs=1e-12)

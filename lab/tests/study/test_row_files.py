"""Rows that somebody edited, cut or merged wrongly are named, and never scored."""

import json

import pytest

from dph.errors import DataError
from lab.study.rows import read_row_files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "seed: Input should be a valid integer, got '0'"),
        ({"steps": None}, "steps: .* got None"),
        ({"more": 1}, "more: .* got 1"),
        ({"scores": [{"set": "x"}]}, r"scores\.0\.metric: "),
        ({"scores": 1}, "scores: .* got 1"),
        ({"learning_rate": float("nan")}, "learning_rate: .* got nan"),
    ],
)
def test_a_damaged_row_is_named_with_what_is_wrong(finished, change, message):
    _, places, _ = finished
    path = sorted(places.rows.glob("*.json"))[0]
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=rf"{path.name} is damaged \({message}.*remove it to run"):
        read_row_files(places.rows)


@pytest.mark.parametrize("value", ["0.5", float("nan")])
def test_a_score_is_a_number(finished, value):
    _, places, _ = finished
    path = sorted(places.rows.glob("*.json"))[0]
    row = json.loads(path.read_text())
    row["scores"][0]["value"] = value
    path.write_text(json.dumps(row))
    with pytest.raises(DataError, match=r"is damaged \(scores\.0\.value: "):
        read_row_files(places.rows)

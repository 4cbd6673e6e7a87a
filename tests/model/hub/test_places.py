from pathlib import Path

import pytest

from dph.errors import DataError, ModelError
from dph.model.hub import is_on_hub, model_directory, problems_file
from dph.recipe import ModelSettings


def test_local_places_are_what_they_are(tmp_path):
    model = ModelSettings(path=str(tmp_path))
    assert not is_on_hub(model)
    assert model_directory(model) == tmp_path
    assert problems_file(tmp_path / "train.jsonl") == tmp_path / "train.jsonl"


def test_nothing_is_fetched(hub):
    hub.push("org/unfetched", {"config.json": b"{}", "model.safetensors": b""})
    hub.push("org/unfetched", {"train.jsonl": b"{}"}, kind="datasets")
    assert is_on_hub(ModelSettings(path="org/unfetched"))
    with pytest.raises(ModelError, match="not in the cache"):
        model_directory(ModelSettings(path="org/unfetched"))
    with pytest.raises(DataError, match="not in the cache"):
        problems_file(Path("hf://datasets/org/unfetched/train.jsonl"))
    # A port is given to one server after another, so a request may be for the one before.
    assert [path for _, path in hub.requests if "unfetched" in path] == []

import json

import pytest

from dph._base.files import sha256
from dph.errors import CheckpointError, DataError
from dph.results.publish import read_finished_run
from finished_runs import evaluation_of, make_run


def test_a_run_says_its_newest_checkpoint_and_both_evaluations(finished):
    run = read_finished_run(finished)
    assert run.checkpoint.name == "step_000002"
    assert (run.base["model"], run.results.evaluation["model"]) == ("base", str(run.checkpoint))
    assert run.pool is None
    assert run.hashes == {}


def test_the_pool_is_known_by_the_hash_of_its_manifest(tmp_path):
    run = make_run(tmp_path / "run", method="dph_f")
    source = {
        "model": "m",
        "prompts": "train",
        "dtype": "float32",
        "system_prompt": "",
        "chat": False,
        "temperature": 1.0,
        "top_p": 1.0,
        "stop_token_ids": [1],
        **{f"{name}_fingerprint": name for name in ("model", "tokenizer", "prompts")},
        **dict.fromkeys(("answers", "max_tokens", "seed"), 4),
    }
    sizes = dict.fromkeys(("prompts", "answers", "tokens", "cut_off", "bytes_per_token"), 0)
    manifest = {
        "format": 3,
        "kind": "pool",
        "source": source,
        "values": {"graded_by": "number", "graded_version": "1"},
        "rule": {"threshold": 1, "wrong_final": "discard"},
        "counts": {**sizes, "histogram": [0]},
        "files": {},
    }
    (run / "pool").mkdir()
    (run / "pool" / "manifest.json").write_text(json.dumps(manifest))
    found = read_finished_run(run)
    assert found.hashes == {"pool": sha256(run / "pool" / "manifest.json")}
    assert found.pool.source.model_fingerprint == "model"


def test_a_run_without_a_checkpoint_is_refused(finished):
    for file in (finished / "checkpoints" / "step_000002").iterdir():
        file.unlink()
    (finished / "checkpoints" / "step_000002").rmdir()
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        read_finished_run(finished)


def test_an_evaluation_of_an_earlier_checkpoint_is_not_told_as_the_newest(finished):
    old = evaluation_of("checkpoints/step_000001", 0.2)
    (finished / "evaluation.json").write_text(json.dumps(old))
    with pytest.raises(DataError, match=r"is of step_000001, but the run ended with step_000002"):
        read_finished_run(finished)


def test_a_damaged_evaluation_is_refused(finished):
    (finished / "base" / "evaluation.json").write_text("[]")
    with pytest.raises(DataError, match="is not an evaluation"):
        read_finished_run(finished)

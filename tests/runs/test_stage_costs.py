import json
from itertools import count

import pytest

from dph.errors import PoolError
from dph.recipe import resolve_recipe
from dph.runs.stage_costs import RunCost, StageCost, note_seconds, noted_seconds, run_cost, timed
from small_pools import small_source
from tiny_models import build_model


def recipe(method, **sections):
    return resolve_recipe(
        {"method": method, "model": {"path": "m"}, "data": {"train": "t.jsonl"}, **sections}
    )


def write_log(directory, *rows):
    directory.mkdir(parents=True, exist_ok=True)
    names = ("step", "tokens", "completion_tokens", "seconds")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
    (directory / "metrics.jsonl").write_text("".join(lines))


def write_pool(place, lengths):
    place.mkdir(parents=True)
    counts = {"prompts": 1, "answers": len(lengths), "tokens": sum(lengths), "cut_off": 0}
    source = small_source(build_model(), answers=4)
    document = {
        "format": 3,
        "kind": "pool",
        "source": source.model_dump(mode="json"),
        "values": {"graded_by": "exact", "graded_version": "1"},
        "rule": {"threshold": 4, "wrong_final": "discard"},
        "files": {},
        "counts": {**counts, "bytes_per_token": 1.0},
    }
    (place / "manifest.json").write_text(json.dumps(document))


def test_cost_counts_pre_sampling_and_training(tmp_path):
    write_log(tmp_path, (1, 40, 10.0, 2.0), (2, 60, 12.0, 3.0))
    write_pool(tmp_path / "pool", [3, 5, 7])
    note_seconds(tmp_path / "pool", 20.0)
    cost = run_cost(tmp_path, recipe("dph_f"))
    assert [one.stage for one in cost.stages] == ["pre-sampling", "training"]
    assert (cost.answers, cost.tokens, cost.seconds) == (3 + 4 + 5, 15 + 100, 20.0 + 5.0)
    assert cost.untimed == []


def test_pre_sampling_counts_for_a_run_that_reads_the_pool_and_for_no_other(tmp_path):
    pool = tmp_path / "pool"
    write_pool(pool, [3, 5, 7])
    shared = {"presample": {"pool": str(pool)}}
    reads, does_not = (run_cost(tmp_path, recipe(name, **shared)) for name in ("dph_f", "grpo"))
    assert reads.stages == [StageCost(stage="pre-sampling", answers=3, tokens=15, seconds=None)]
    assert reads.untimed == ["pre-sampling"]
    assert does_not == RunCost([])
    note_seconds(pool, 4.0)
    assert run_cost(tmp_path, recipe("dph_f", **shared)).seconds == 4.0


def test_what_is_not_known_is_none_and_not_nothing(tmp_path):
    write_log(tmp_path, (1, None, None, 2.5))
    cost = run_cost(tmp_path, None)
    assert (cost.answers, cost.tokens, cost.seconds) == (None, None, 2.5)
    assert run_cost(tmp_path / "elsewhere", None) == RunCost([])


def test_a_damaged_manifest_is_told(tmp_path):
    write_pool(tmp_path / "pool", [1])
    (tmp_path / "pool" / "manifest.json").write_text("{}")
    with pytest.raises(PoolError, match="manifest"):
        run_cost(tmp_path, recipe("dph_f"))


def test_seconds_of_what_completes_a_pool_are_added_also_of_what_was_interrupted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("dph.runs.stage_costs.time.perf_counter", count(0, 7).__next__)
    pool = tmp_path / "pool"
    for seconds in (None, 7.0, 14.0):  # at first before there is a part
        with pytest.raises(KeyboardInterrupt), timed(pool):
            raise KeyboardInterrupt
        assert noted_seconds(pool) == seconds
        (tmp_path / "pool.partial").mkdir(exist_ok=True)
    write_pool(pool, [1])
    (tmp_path / "pool.partial").rmdir()
    with timed(pool):
        pass
    assert noted_seconds(pool) == 21.0
    (pool / "manifest.json").unlink()  # another one in its place
    with timed(pool):
        pass
    assert noted_seconds(pool) == 7.0
    assert list(pool.iterdir()) == []

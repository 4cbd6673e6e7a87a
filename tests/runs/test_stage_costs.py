"""What a run cost, against files whose sums can be done by hand."""

import json
import subprocess
import sys

import pytest

from dph.errors import PoolError
from dph.recipe import resolve_recipe
from dph.runs.stage_costs import RunCost, StageCost, note_seconds, noted_seconds, run_cost, timed

STORE = {"file": "unlabelled.jsonl", "answers": 4}


def recipe(method, **sections):
    return resolve_recipe(
        {"method": method, "model": {"path": "m"}, "data": {"train": "t.jsonl"}, **sections}
    )


def broad():
    return recipe("dph_broad", stores={"broad": STORE}, consolidation={"updates": 2})


def write_log(directory, *rows):
    directory.mkdir(parents=True, exist_ok=True)
    names = ("step", "tokens", "completion_tokens", "seconds")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
    (directory / "metrics.jsonl").write_text("".join(lines))


def write_store(place, *, answers, tokens, seconds=None, kind="store"):
    place.mkdir(parents=True)
    source = {
        "model": "m",
        "model_fingerprint": "",
        "tokenizer_fingerprint": "",
        "prompts": "train",
        "prompts_fingerprint": "",
        "chat": False,
        "system_prompt": "",
        "answers": 4,
        "top": 8,
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 8,
        "stop_token_ids": [2],
        "dtype": "float32",
        "seed": 0,
    }
    counts = {"prompts": 1, "answers": answers, "tokens": tokens, "distributions": 0, "cut_off": 0}
    document = {
        "format": 3,
        "kind": kind,
        "source": source,
        "values": None,
        "files": {},
        "counts": {**counts, "bytes_per_token": 1.0},
    }
    (place / "manifest.json").write_text(json.dumps(document))
    if seconds is not None:
        note_seconds(place, seconds)


def write_pool(place, lengths):
    write_store(place, kind="pool", answers=len(lengths), tokens=sum(lengths))


def test_cost_counts_stores_and_consolidation_beside_training(tmp_path):
    run, after = tmp_path / "run", tmp_path / "run" / "consolidation"
    write_log(run, (1, 40, 10.0, 2.0), (2, 60, 12.0, 3.0))
    write_log(after, (1, 0, None, 1.5), (2, 0, None, 1.5))
    write_store(run / "stores" / "broad", answers=100, tokens=700, seconds=20.0)
    write_store(after / "stores" / "after", answers=50, tokens=300, seconds=10.0)
    cost = run_cost(run, broad())
    assert [one.stage for one in cost.stages] == [
        *("store broad", "training", "store after", "consolidation")
    ]
    assert cost.answers == 100 + (4 + 5) + 50 + 0
    assert cost.tokens == 700 + 100 + 300 + 0
    assert cost.seconds == 20.0 + 5.0 + 10.0 + 3.0
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
    write_store(tmp_path / "stores" / "broad", answers=1, tokens=1)
    (tmp_path / "stores" / "broad" / "manifest.json").write_text("{}")
    with pytest.raises(PoolError, match="manifest"):
        run_cost(tmp_path, broad())


def test_costs_are_summed_without_torch():
    code = "import sys, dph.runs.stage_costs; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_seconds_of_what_completes_a_store_are_added_and_of_what_fails_none(tmp_path):
    store = tmp_path / "store"
    write_store(store, answers=1, tokens=1, seconds=100.0)
    with timed(store):
        pass
    completed = noted_seconds(store)
    assert completed >= 100.0
    with pytest.raises(RuntimeError, match="broke"), timed(store):
        raise RuntimeError("broke")
    assert noted_seconds(store) == completed
    (store / "manifest.json").unlink()  # another one in its place
    with timed(store):
        pass
    assert noted_seconds(store) < 100.0
    assert list(store.iterdir()) == []

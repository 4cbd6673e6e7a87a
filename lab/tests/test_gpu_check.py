"""The check of a GPU: everything in it runs, on a CPU and on the counting device."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dph
from counting_device import CountingDevice
from dph.runs.memory import read_shape
from lab.benchmarks.gpu import __main__ as command
from lab.benchmarks.gpu import check as checking
from lab.benchmarks.gpu import peers
from lab.benchmarks.gpu.__main__ import add, main
from lab.benchmarks.gpu.check import Check, Trace, problems
from lab.benchmarks.gpu.correct import correct
from lab.benchmarks.gpu.kit import is_there, needed
from lab.benchmarks.gpu.places import (
    CONTEXT,
    EIGHT,
    HALF,
    PLACES,
    SQL,
    build,
    fit,
    shape_of,
    useful_flops,
)
from lab.benchmarks.gpu.rates import rates
from lab.benchmarks.gpu.steps import given_groups, groups_in, minibatch_of, size_of
from lab.benchmarks.speed.flops import update_flops
from lab.benchmarks.speed.rows import read_rows

ROOT = Path(dph.__file__).parents[2]
TINY = ["--device", "cpu", "--tiny"]


@pytest.mark.slow
def test_a_try_on_a_cpu_measures_every_shape_and_finds_everything_right(tmp_path, capsys):
    assert main([*TINY, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    found = json.loads(said.splitlines()[-1].removeprefix("RESULT "))
    assert found["wrong"] == [] == problems(found["rows"])
    assert found["rows"] == json.loads((tmp_path / "gpu-check.json").read_text())["rows"]
    sides = {row["case"] for row in found["rows"] if row["bench"] == "gpu"}
    assert sides >= {f"{name}: {side}" for name in PLACES for side in ("ours", "padded")}
    for row in found["rows"]:
        assert row["commit"]
        assert row["versions"]
        if row["bench"] == "gpu" and row["side"] != "TRL":
            assert row["micro_s"] > 0
            assert row["update_tokens_per_s"] > 0
    assert "| training forward, packed | logprob" in said


@pytest.mark.slow
@pytest.mark.parametrize("place", [HALF, EIGHT], ids=lambda place: place.name)
def test_branches_of_a_gpu_run_on_the_counting_device(monkeypatch, place):
    monkeypatch.setattr(checking, "seconds_of", lambda call, **_: call() or 1.0)
    monkeypatch.setattr(checking, "trace_of", lambda call: call() or Trace(3, 40, 0.25))
    monkeypatch.setattr(peers, "find_spec", lambda _: None)  # TRL has tests of its own
    world, model = build(Check(device="cpu"), place.made_tiny())
    world = replace(world, device="cuda")
    with CountingDevice(where=False) as device:
        monkeypatch.setattr(command, "build", lambda *_: (world, device.move(model)))
        check = Check(device="cuda", tiny=True)
        command.shape(check, place)
    ours, padded = check.rows
    assert problems(check.rows) == []
    # A second for 8 tokens, of which a kernel ran a quarter; what a token is, launched.
    assert (ours["token_s"], ours["token_idle"], ours["token_kernels"]) == (1 / 8, 3 / 4, 40 / 8)
    assert ours["micro_launches"] == 3
    assert "refusal" not in ours
    assert ours["step_s"] == ours["sampling_s"] + ours["update_s"]
    assert padded["step_s"] > 0


@pytest.mark.slow
def test_comparisons_of_a_gpu_run_on_the_counting_device():
    with CountingDevice(where=False):
        check = Check(device="cuda", tiny=True)
        correct(check)
    assert problems(check.rows) == []
    assert [row["case"] for row in check.rows if not row["passed"]] == []
    assert len(check.rows) == 9


def test_a_measurement_that_fails_says_why_and_leaves_the_others_alone():
    check = Check(device="cpu")
    row = check.row("gpu", "a case")

    def fail():
        raise torch.OutOfMemoryError("too\nlarge")

    assert check.measure(row, "first", fail) is None
    assert check.measure(row, "second", lambda: None) is not None
    assert problems([row]) == ["a case: first: failed: OutOfMemoryError: too large"]
    assert row["second_s"] >= 0


def test_useful_operations_count_the_tokens_of_a_family_once():
    place = SQL.made_tiny()
    groups = size_of(minibatch_of(given_groups(place), 128)).groups
    families = [prompt[: place.shape.schema] for prompt, _ in given_groups(place)]
    assert len(set(families)) == place.shape.schemas == 2
    begun = 2 * 3 * _read(place, place.shape.schema)
    assert useful_flops(place, groups, backward=True) == pytest.approx(
        update_flops(place.size, groups) - begun
    )


def _read(place, tokens):
    """Reading ``tokens`` tokens: two operations a weight, and attention to those before."""
    size = place.size
    weights = 2 * size.hidden * size.width * (size.heads + size.kv_heads)
    weights += 3 * size.hidden * size.intermediate
    pairs = tokens * (tokens + 1) / 2
    return size.layers * (2 * weights * tokens + 4 * size.heads * size.width * pairs)


def test_a_micro_batch_holds_the_groups_whose_distinct_tokens_fit():
    # One family: 2,600 tokens once, then 400 + 16 x 200 for each group.
    assert groups_in(SQL, 2600 + 2 * 3600) == 2
    assert groups_in(SQL, 2600 + 2 * 3600 - 1) == 1
    assert groups_in(SQL, 1) == 1
    assert groups_in(HALF, 10**9) == HALF.shape.prompts


@pytest.mark.parametrize("place", [HALF, CONTEXT], ids=lambda place: place.name)
def test_the_sizes_for_an_estimate_are_those_of_the_saved_model(tmp_path, place):
    place = place.made_tiny()
    _, model = build(Check(device="cpu"), place)
    model.save_pretrained(tmp_path)
    assert shape_of(model, place.size) == read_shape(tmp_path)


def test_a_model_that_does_not_fit_is_checkpointed_with_the_smallest_micro_batch(monkeypatch):
    place = HALF.made_tiny()
    check = Check(device="cpu")
    _, model = build(check, place)
    assert not fit(check, place, model).checkpointing
    monkeypatch.setattr("lab.benchmarks.gpu.places.SHARE", 0.0)
    fitted = fit(check, place, model)
    assert fitted.checkpointing
    assert fitted.tokens == place.longest


def test_rows_of_a_result_become_rows_of_the_project_and_of_its_tables(tmp_path):
    check = Check(device="cpu", tiny=True)
    rates(check)
    check.note(check.row("gpu", "half: ours", shape="0.5B", side="this package"), step_s=0.5)
    result, readme = tmp_path / "gpu-check.json", tmp_path / "README.md"
    result.write_text(json.dumps({"rows": check.rows}))
    readme.write_text((ROOT / "lab" / "benchmarks" / "README.md").read_text())
    for _ in range(2):
        add(result, tmp_path / "results.jsonl", readme)
    assert read_rows(tmp_path / "results.jsonl") == check.rows
    assert "| 0.5B | this package |  |  | 0.5 |" in readme.read_text()


def test_the_kit_has_what_the_package_needs_and_images_lack():
    names = {r.name for r in needed(["gpu"]) if not is_there(r)}
    assert names >= {"pydantic", "tomli-w", "jaxtyping", "liger-kernel"}
    assert not names & {"torch", "transformers", "numpy"}

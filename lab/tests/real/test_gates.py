"""The gates of the real world's tasks: what rows say, and that they survive a kill."""

import json
from argparse import Namespace
from math import sqrt

import pytest

from lab.benchmarks.real.gates import Gate, read_gate_rows
from lab.benchmarks.real.gates_table import change_of, gates_table, said_gates, temperature_table


def row(seed, steps, greedy, many, task="real"):
    scores = {"greedy": greedy, "mean": greedy / 2, "pass@16": many, "cut_off": 0.0}
    return {
        "task": task,
        "seed": seed,
        "steps": steps,
        "problems": 100,
        "samples": 16,
        "learning_rate": 5e-6 if steps else None,
        "sets": {"in_domain": scores, "cross_domain": scores},
    }


BASE = [row(seed, 0, 0.4, 0.7) for seed in (1, 2, 3)]


def test_a_change_is_paired_by_seed_with_the_standard_error_of_its_mean():
    trained = [row(1, 40, 0.5, 0.7), row(2, 40, 0.6, 0.7), row(3, 40, 0.7, 0.7), row(4, 40, 1, 1)]
    change = change_of([*BASE, *trained], 40, "greedy")
    assert change.mean == pytest.approx(0.2)
    assert change.error == pytest.approx(0.1 / sqrt(3))  # 0.1, 0.2, 0.3: the deviation is 0.1
    assert (change.seeds, str(change)) == (3, "+20.0 ± 5.8 (3)")
    assert change_of(BASE, 40, "greedy") is None
    assert change_of(BASE, 0, "greedy") is None
    assert change_of([*BASE, *trained], 40, "pass@64") is None
    alone = change_of([*BASE, trained[0]], 40, "greedy")
    assert (alone.error, str(alone)) == (None, "+10.0 (1)")


def test_all_gates_are_passed_by_a_gain_and_a_fall_that_seeds_agree_on():
    trained = [row(seed, 40, 0.6 + seed / 100, 0.6 - seed / 100) for seed in (1, 2, 3)]
    assert said_gates([*BASE, *trained]) == "passed"


def test_a_gain_that_seeds_do_not_agree_on_fails_and_two_seeds_say_nothing():
    apart = [row(1, 40, 0.4, 0.7), row(2, 40, 0.9, 0.7), row(3, 40, 0.5, 0.7)]
    assert said_gates([*BASE, *apart]) == "failed: gain, fall"
    assert said_gates([*BASE, *apart[:2]]) == "open: gain, fall"


def test_a_base_model_that_is_hopeless_or_has_no_room_fails():
    assert said_gates([row(1, 0, 0.05, 0.7)]) == "failed: greedy"
    assert said_gates([row(1, 0, 0.65, 0.7)]) == "failed: greedy, room"
    assert said_gates([]) == "open: base"


def test_the_table_has_a_line_for_each_task_and_number_of_steps():
    trained = [row(1, 40, 0.5, 0.6), row(1, 120, 0.6, 0.5)]
    lines = gates_table([*BASE, *trained, row(1, 0, 0.05, 0.1, "real-gcd")]).splitlines()
    assert lines[2] == (
        "| `real` | 100 x 16 | 40 / 20 / 70 | 40 / 20 / 70 | 40 at 5e-06 | +10.0 (1) / +10.0 (1) | "
        "-10.0 (1) / -10.0 (1) | - | "
        "open: gain, fall |"
    )
    assert lines[3].split(" | ")[4:6] == ["120 at 5e-06", "+20.0 (1) / +20.0 (1)"]
    assert lines[4].startswith("| `real-gcd` | 100 x 16 | 5 / 2 / 10 |")


def test_rows_that_exist_are_not_measured_again_and_a_line_cut_off_by_a_kill_is(
    tmp_path, monkeypatch
):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"task": "real", "seed": 7, "steps": 0, "problems": 5, "samples": 16, '
        '"learning_rate": null}\n'
        '{"task": "real", "seed": 7, "steps": 40, "pro'
    )
    assert len(read_gate_rows(rows)) == 1
    assert read_gate_rows(tmp_path / "nowhere.jsonl") == []
    measured = []
    monkeypatch.setattr(Gate, "_measure", lambda _, kind, steps: measured.append(steps))  # noqa: ARG005
    asked = Namespace(rows=rows, work=tmp_path, problems=5, samples=16, temperature=1.0)
    Gate("real", 7, asked).run([120, 40])
    assert measured == [40, 120]
    measured.clear()
    Gate("real", 7, Namespace(**{**vars(asked), "samples": 64})).run([])
    assert measured == [0]
    measured.clear()
    Gate("real", 7, Namespace(**{**vars(asked), "temperature": 0.4})).run([])
    assert measured == [0]


def test_rows_of_another_learning_rate_do_not_count(tmp_path, monkeypatch):
    base = {"task": "real", "seed": 7, "steps": 0, "problems": 5, "samples": 16}
    rates = {0: None, 40: 2e-5, 120: 5e-6}
    lines = [{**base, "steps": steps, "learning_rate": rate} for steps, rate in rates.items()]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    measured = []
    monkeypatch.setattr(Gate, "_measure", lambda _, kind, steps: measured.append(steps))  # noqa: ARG005
    asked = Namespace(rows=rows, work=tmp_path, problems=5, samples=16, temperature=1.0)
    Gate("real", 7, asked).run([40, 120])
    assert measured == [40]


def test_rows_at_other_temperatures_have_a_table_of_their_own_over_the_seeds_of_all():
    cool = [{**row(seed, 0, 0.6, 0.8), "temperature": 0.4} for seed in (1, 2)]
    assert gates_table([*BASE, *cool]) == gates_table(BASE)
    lines = temperature_table([*BASE, row(1, 40, 0.5, 0.6), *cool]).splitlines()
    assert lines[2:4] == [
        "| `real` | base | 0.4 | 30 / 30 | - / - | 80 / 80 | - / - | 2 |",
        "| `real` | base | 1 | 20 / 20 | - / - | 70 / 70 | - / - | 2 |",
    ]
    assert lines[4] == ""  # of GRPO one temperature is measured
    assert temperature_table(BASE) == ""

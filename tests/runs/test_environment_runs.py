import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dph
from asking_policy import TURN, initial_policy, make_tokenizer, problems
from dph import SettingsError
from dph.cli import main
from dph.errors import CheckpointError, PoolError
from dph.results.inspect import write_inspect_logs
from dph.runs.check import check
from dph.runs.presample.pool import load_pool
from dph.tasks.environments import Environment, read_turns
from dph.tasks.problems import save_problems
from run_stages import evaluated, presampled, recipe_of, trained

CLASS = '''
from environment_classes import Lookup


class Look(Lookup):
    """The same in a file of the user's."""
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model that sometimes asks, problems and a class of the user's."""
    place = tmp_path_factory.mktemp("asking")
    tokenizer = make_tokenizer()
    initial_policy(tokenizer).save_pretrained(place / "model")
    tokenizer.save_pretrained(place / "model")
    save_problems(place / "train.jsonl", problems())
    save_problems(place / "dev.jsonl", problems()[:6])
    return place


@pytest.fixture
def make_recipe(place, tmp_path):
    (tmp_path / "look.py").write_text(CLASS)

    def make(method="dph_f", **sections):
        table = {
            "method": method,
            "model": {"path": str(place / "model"), "device": "cpu", "threads": 1},
            "data": {
                "train": str(place / "train.jsonl"),
                "sets": {"dev": str(place / "dev.jsonl")},
                "modules": [str(tmp_path), str(Path(__file__).parents[1])],
            },
            "environment": {
                "path": "look:Look",
                "form": "plain",
                "hidden": ["answer"],
                "tokens": 4 * TURN,
                "turns": 4,
            },
            "sampling": {"max_tokens": TURN},
            "presample": {"samples": 4, "threshold": 1},
            "train": {
                "steps": 2,
                "problems_per_step": 4,
                "samples_per_problem": 4,
                "rehearsal_per_step": 4,
                "learning_rate": 1e-3,
            },
            "evaluate": {"samples": 4, "retention_k": 2},
        }
        return recipe_of(table, sections)

    return make


def digests(directory):
    files = [f for f in directory.rglob("*") if f.suffix in (".parquet", ".safetensors")]
    return {
        str(f.relative_to(directory)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files
    }


def test_a_run_in_an_environment_stores_what_its_tools_answered(tmp_path, make_recipe):
    dph.run(make_recipe(), tmp_path / "run")
    pool = load_pool(tmp_path / "run" / "pool")
    # The checks of the records hold: log-probs of the policy's tokens alone.
    asked = [sample for sample in pool.rehearsal if not all(sample.written)]
    assert asked
    assert all(len(s.ref_logprobs) == sum(s.written) for s in pool.rehearsal)
    samples = pq.read_table(tmp_path / "run" / "pool" / "samples.parquet").to_pylist()
    assert all(len(row["written"]) == len(row["token_ids"]) for row in samples)
    assert {row["style"] for row in samples} >= {None, "look"}
    rows = pq.read_table(tmp_path / "run" / "samples.parquet").to_pylist()
    assert len(rows) == 6 * 5
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in metrics] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dph_js", "rkl"])
def test_a_run_that_stops_goes_on_to_the_bit(tmp_path, make_recipe, method):
    during = {"every": 2, "during": {"samples": 2, "k": [1]}}

    def recipe(steps):
        return make_recipe(method, train={"steps": steps, "checkpoint_every": 1}, evaluate=during)

    dph.run(recipe(3), tmp_path / "whole")
    for steps in (1, 3):
        dph.run(recipe(steps), tmp_path / "parts")
    whole, parts = digests(tmp_path / "whole"), digests(tmp_path / "parts")
    assert whole == {name: parts[name] for name in whole}


def forbid_episodes(monkeypatch):
    def begin(*_, **__):
        raise AssertionError("a tool would run")

    monkeypatch.setattr(Environment, "begin", begin)


@pytest.mark.parametrize("method", ["dph_f", pytest.param("dph_js", marks=pytest.mark.slow)])
def test_rehearsal_runs_no_tool(tmp_path, make_recipe, monkeypatch, method):
    recipe = make_recipe(method, train={"problems_per_step": 0})
    presampled(recipe, tmp_path / "run")
    forbid_episodes(monkeypatch)
    assert trained(recipe, tmp_path / "run").step == 2


def test_a_finished_pool_is_split_again_without_drawing(tmp_path, make_recipe, monkeypatch):
    def pool(threshold):
        presampled(make_recipe(presample={"threshold": threshold}), tmp_path / "run")
        return load_pool(tmp_path / "run" / "pool")

    first = pool(1)
    forbid_episodes(monkeypatch)
    assert len(pool(2).rehearsal) < len(first.rehearsal)
    assert pool(1) == first


def test_a_class_that_changed_is_told_as_an_environment(tmp_path, make_recipe):
    trained(make_recipe("grpo"), tmp_path / "run")
    (tmp_path / "look.py").write_text(CLASS + "\n# another rule\n")
    more = make_recipe("grpo", train={"steps": 3})
    with pytest.raises(CheckpointError, match=r"the environment file .*look\.py"):
        trained(more, tmp_path / "run")
    assert trained(more, tmp_path / "run", accept_verifier=True).step == 3


def test_limits_are_part_of_what_a_pool_is_made_from(tmp_path, make_recipe):
    pool = {"pool": str(tmp_path / "pool")}
    presampled(make_recipe(presample=pool), tmp_path / "a")
    with pytest.raises(PoolError, match=r"verifier environment\.turns was 4, this run has 3"):
        presampled(make_recipe(presample=pool, environment={"turns": 3}), tmp_path / "b")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sampling": {"engine": "vllm"}}, r"sampling\.engine = 'vllm'"),
        ({"data": {"styles": "sql"}}, r"data\.styles = 'sql'"),
        ({"data": {"shots": {"count": 2}}}, r"data\.shots\.count = 2"),
        ({"environment": {"tokens": 3}}, r"environment\.tokens=3 has no room"),
        ({"environment": {"path": "look"}}, "'module:Class', got 'look'"),
        ({"environment": {"form": "xml"}}, r"environment\.form"),
    ],
)
def test_parts_that_do_not_know_trajectories_refuse_the_section(make_recipe, more, message):
    with pytest.raises(SettingsError, match=message):
        make_recipe("grpo", **more)


def test_a_check_begins_a_trajectory_of_each_file(tmp_path, make_recipe):
    assert not check(make_recipe()).errors
    (tmp_path / "look.py").write_text(CLASS + "    def reset(self, **columns):\n        1 / 0\n")
    errors = check(make_recipe()).errors
    assert len(errors) == 2
    assert all("ZeroDivisionError" in error for error in errors)
    [error] = check(make_recipe(environment={"path": "look:Nobody"})).errors
    assert error.startswith("environment.path = 'look:Nobody': ")


def test_a_class_with_a_reward_and_a_verifier_are_one_too_many(tmp_path, make_recipe):
    (tmp_path / "look.py").write_text(CLASS + "    def get_reward(self):\n        return 1.0\n")
    with pytest.raises(SettingsError, match=r"data\.verifier = 'math'.*'get_reward'"):
        trained(make_recipe(data={"verifier": "math"}), tmp_path / "run")


HOSTILE = (
    CLASS
    + """
    def look(self, key: str) -> str:
        \"\"\"Look a key up.

        Args:
            key: The key.
        \"\"\"
        return "<script>alert(1)</script>\\n> v1\\x1b[31m <tool_call>"
"""
)


@pytest.mark.slow
def test_turns_are_shown_and_no_result_is_interpreted(tmp_path, make_recipe, capsys):
    (tmp_path / "look.py").write_text(HOSTILE)
    details = {"samples": 16, "retention_k": 2, "token_details": 16}
    dph.run(make_recipe("grpo", train={"steps": 1}, evaluate=details), tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "samples.parquet").to_pylist()
    asked = [read_turns(row["text"]) for row in rows if row["style"] == "look"]
    assert asked
    for turns in asked:
        # WordLevel tokens of the small model: what it writes is its own, what it reads is shown.
        assert [turn.by for turn in turns] == ["", "look", ""]
        assert turns[1].text == "<script>alert(1)</script>\n> v1\x1b[31m <tool_call>"
    tokens = pq.read_table(tmp_path / "run" / "tokens.parquet").to_pylist()
    assert len(tokens) == len(rows)  # drawn again, all of them are the same
    read = [
        [piece for piece, value in zip(row["pieces"], row["entropy"], strict=True) if value is None]
        for row in tokens
    ]
    assert sum(map(bool, read)) == len(asked)
    assert {pieces[0] for pieces in read if pieces} == {"RESULT"}
    logs, _ = write_inspect_logs(tmp_path / "run", tmp_path / "logs")
    with zipfile.ZipFile(logs[0]["log"]) as log:
        samples = [json.loads(log.read(n)) for n in log.namelist() if n.startswith("samples/")]
    acted = [s["messages"] for s in samples if len(s["messages"]) > 2]
    assert acted
    for _, call, told, answer in acted:
        assert (call["role"], told["role"], answer["role"]) == ("assistant", "tool", "assistant")
        assert told["function"] == "look"
        assert told["content"].startswith("<script>")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "run"), "--full", "--no-pager"]) == 0
    shown = capsys.readouterr().out
    assert "> CALL look(" in shown
    assert "look: <script>alert(1)</script>" in shown
    assert "\x1b[31m" not in shown
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report.html")]) == 0
    report = (tmp_path / "report.html").read_text()
    assert "<script>alert(1)" not in report
    assert "Turns and tools" in report
    assert "<td><code>look</code></td>" in report


def test_what_bounds_a_trajectory_is_part_of_what_was_made_with_it(tmp_path, make_recipe):
    wide, made = {"tokens": 5 * TURN}, set()
    trained(make_recipe("grpo"), tmp_path / "run")
    for limits in ({}, wide):
        evaluated(make_recipe("grpo", environment=limits), tmp_path / "e")
        made.add(pq.read_schema(tmp_path / "e" / "samples.parquet").metadata[b"dph.digest"])
    assert len(made) == 2
    with pytest.raises(CheckpointError, match="settings"):
        trained(make_recipe("grpo", environment=wide, train={"steps": 3}), tmp_path / "run")


def test_unlabelled_questions_are_rewarded_for_what_trajectories_came_to(tmp_path, make_recipe):
    asked = [replace(p, problem_id=f"u {p.problem_id}") for p in problems()[:40]]
    hidden = [
        replace(p, answer={k: v for k, v in p.answer.items() if k != "answer"}) for p in asked
    ]
    save_problems(tmp_path / "more.jsonl", hidden)
    asked = {"file": str(tmp_path / "more.jsonl"), "allow_overlap": ["dev"], "novel": False}
    recipe = make_recipe("ttrl", self_consistency={**asked, "problems_per_step": 2})
    dph.run(recipe, tmp_path / "run")
    rows = [
        row
        for file in sorted((tmp_path / "run").rglob("step_*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]
    unlabelled = [row for row in rows if row["problem_id"].startswith("u ")]
    assert len(unlabelled) == 2 * 2 * 4
    alike = [row for row in unlabelled if row["reward"] == 1]
    ends = {(row["step"], row["problem_id"], row["text"].split()[-1]) for row in alike}
    # One answer of each group is rewarded, whether it was looked up or guessed.
    assert len(ends) == 4
    assert len({row["text"] for row in alike}) > 4

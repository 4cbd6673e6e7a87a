"""Runs whose recipe has an ``[environment]``: pools, training, evaluations and resumption."""

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import dph
from asking_policy import TURN, initial_policy, make_tokenizer, problems
from dph import SettingsError
from dph._base.files.parts import TableParts
from dph.cli import main
from dph.errors import CheckpointError, PoolError
from dph.model.loading import load_model
from dph.recipe import load_recipe, resolve_recipe, save_recipe
from dph.results.inspect import write_inspect_logs
from dph.runs import store_stage as store_stage_module
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.preflight import preflight
from dph.runs.presample.manifest import read_manifest
from dph.runs.presample.pool import load_pool
from dph.runs.presample.stores import making
from dph.runs.presample.stores.store import load_store, stored_groups, stored_values
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.store_stage import store_stage
from dph.runs.training_stage import train_stage
from dph.tasks.environments import Environment, read_turns
from dph.tasks.problems import save_problems

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
        for name, values in sections.items():
            table[name] = {**table.get(name, {}), **values}
        return resolve_recipe(table)

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
@pytest.mark.parametrize("method", ["grpo", "dph_js", "dyjr", "rkl"])
def test_a_run_that_stops_goes_on_to_the_bit(tmp_path, make_recipe, method):
    during = {"every": 2, "during": {"samples": 2, "k": [1]}}

    def recipe(steps):
        train = make_recipe().train.model_dump() | {"steps": steps, "checkpoint_every": 1}
        return make_recipe(method, train=train, evaluate=during)

    dph.run(recipe(3), tmp_path / "whole")
    for steps in (1, 3):
        dph.run(recipe(steps), tmp_path / "parts")
    whole, parts = digests(tmp_path / "whole"), digests(tmp_path / "parts")
    assert whole == {name: parts[name] for name in whole}


def forbid_episodes(monkeypatch):
    def begin(*_, **__):
        raise AssertionError("a tool would run")

    monkeypatch.setattr(Environment, "begin", begin)


@pytest.mark.parametrize("method", ["dph_f", "dph_js"])
def test_rehearsal_runs_no_tool(tmp_path, make_recipe, monkeypatch, method):
    recipe = make_recipe(method)
    place = {"pool": str(tmp_path / "pool"), **recipe.presample.model_dump(include={"samples"})}
    alone = recipe.train.model_dump() | {"problems_per_step": 0}
    recipe = make_recipe(method, presample={**place, "threshold": 1}, train=alone)
    with open_plan(recipe, tmp_path / "run") as plan:
        presample_stage(plan, Silent())
        forbid_episodes(monkeypatch)
        done = train_stage(plan, Silent())
    assert done.step == 2


def test_a_finished_pool_is_split_again_without_drawing(tmp_path, make_recipe, monkeypatch):
    def pool(threshold):
        recipe = make_recipe(presample={"threshold": threshold})
        with open_plan(recipe, tmp_path / "run") as plan:
            presample_stage(plan, Silent())
        return load_pool(tmp_path / "run" / "pool")

    first = pool(1)
    forbid_episodes(monkeypatch)
    assert len(pool(2).rehearsal) < len(first.rehearsal)
    assert pool(1) == first


def test_a_class_that_changed_is_told_as_an_environment(tmp_path, make_recipe):
    recipe = make_recipe()
    dph.run(recipe, tmp_path / "run")
    (tmp_path / "look.py").write_text(CLASS + "\n# another rule\n")
    more = make_recipe(train=recipe.train.model_dump() | {"steps": 3})
    with pytest.raises((CheckpointError, PoolError), match=r"the environment file .*look\.py"):
        dph.run(more, tmp_path / "run")
    with open_plan(more, tmp_path / "run", accept_verifier=True) as plan:
        assert train_stage(plan, Silent()).step == 3


def test_limits_are_part_of_what_a_pool_is_made_from(tmp_path, make_recipe):
    pool = {"pool": str(tmp_path / "pool")}
    dph.run(make_recipe(presample=pool), tmp_path / "a")
    fewer = make_recipe().environment.model_dump() | {"turns": 3}
    with pytest.raises(PoolError, match=r"verifier environment\.turns was 4, this run has 3"):
        dph.run(make_recipe(presample=pool, environment=fewer), tmp_path / "b")


def test_the_recipe_of_a_run_reads_back(tmp_path, make_recipe):
    recipe = make_recipe()
    save_recipe(recipe, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == recipe


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
    def merged(name, values):
        base = make_recipe().model_dump(mode="json", exclude_none=True)[name]
        return {**base, **values}

    sections = {name: merged(name, values) for name, values in more.items()}
    with pytest.raises(SettingsError, match=message):
        make_recipe("grpo", **sections)


def test_a_check_begins_a_trajectory_of_each_file(tmp_path, make_recipe):
    assert not preflight(make_recipe()).errors
    (tmp_path / "look.py").write_text(CLASS + "    def reset(self, **columns):\n        1 / 0\n")
    errors = preflight(make_recipe()).errors
    assert len(errors) == 2
    assert all("ZeroDivisionError" in error for error in errors)
    broken = make_recipe().environment.model_dump() | {"path": "look:Nobody"}
    [error] = preflight(make_recipe(environment=broken)).errors
    assert error.startswith("environment.path = 'look:Nobody': ")


def test_a_class_with_a_reward_and_a_verifier_are_one_too_many(tmp_path, make_recipe):
    (tmp_path / "look.py").write_text(CLASS + "    def get_reward(self):\n        return 1.0\n")
    named = make_recipe().data.model_dump(mode="json", exclude_none=True) | {"verifier": "math"}
    with (
        pytest.raises(SettingsError, match=r"data\.verifier = 'math'.*'get_reward'"),
        open_plan(make_recipe(data=named), tmp_path / "run"),
    ):
        pass


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


def test_turns_are_shown_and_no_result_is_interpreted(tmp_path, make_recipe, capsys):
    (tmp_path / "look.py").write_text(HOSTILE)
    more = make_recipe().train.model_dump() | {"steps": 1}
    details = {"samples": 16, "retention_k": 2, "token_details": 16}
    recipe = make_recipe("grpo", train=more, evaluate=details)
    dph.run(recipe, tmp_path / "run")
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
    with zipfile.ZipFile(logs[0].path) as log:
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


# Stores of trajectories: drawn, compared by what they came to, learnt from, consolidated.


@pytest.fixture
def broad(make_recipe, tmp_path):
    """DPH-broad on prompts whose rows say what the tools know, and nothing of an answer."""
    asked = [replace(p, problem_id=f"u {p.problem_id}") for p in problems()[:40]]
    hidden = [
        replace(p, answer={k: v for k, v in p.answer.items() if k != "answer"}) for p in asked
    ]

    def make(*, updates=2, labelled=False, **store):
        save_problems(tmp_path / "more.jsonl", asked if labelled else hidden)
        both = {"file": str(tmp_path / "more.jsonl"), "answers": 4, "novel": False}
        both |= {"allow_overlap": ["dev"], **store}
        return make_recipe(
            "dph_broad",
            objective={
                "anchors": {"broad": {"per_step": 8, "whole_prompts": True, "weight": 0.15}}
            },
            stores={"broad": both, "after": both},
            consolidation={"updates": updates, "samples": "store:after", "rows": 16},
            train={**make_recipe().train.model_dump(), "checkpoint_every": 1},
        )

    return make


@pytest.mark.parametrize("prompts", ["recombined", "beginning"])
def test_prompts_without_columns_for_reset_are_refused(broad, prompts):
    said = {"prompts": prompts} | ({"file": None, "tilt": 0.0} if prompts == "beginning" else {})
    with pytest.raises(SettingsError, match=rf"stores\.broad\.prompts = '{prompts}'"):
        broad(**said)


def stored(directory, name="stores/broad"):
    return stored_groups(directory / name)


def test_a_store_keeps_what_tools_answered_and_compares_what_trajectories_came_to(tmp_path, broad):
    recipe = broad(labelled=True)
    dph.run(recipe, tmp_path / "run")
    groups, values = stored(tmp_path / "run"), stored_values(tmp_path / "run" / "stores" / "broad")
    acted = 0
    for group in groups:
        for index, value in enumerate(values[group.problem.problem_id]):
            own, end = group.acting.written[index], group.acting.ends[index]
            asked = not all(own)
            acted += asked
            assert group.texts[index].startswith("> CALL look") == asked
            assert len(group.ref_logprobs[index]) == sum(own)
            # An answer is the last word, whether the policy asked or guessed.
            assert (value.answer_class is None) == (end is None)
            assert bool(value.correct) == (end == group.problem.answer["value"])
            alike = [e for e in group.acting.ends if e is not None and e == end]
            assert value.agreement == pytest.approx((len(alike) - 1) / 3 if alike else 0)
        assert group.acting.rewarded == (None,) * 4 or None in group.acting.ends
    assert acted > 4
    manifest = read_manifest(tmp_path / "run" / "stores" / "broad", "store")
    assert manifest.counts.labelled == 40
    assert manifest.counts.tokens == sum(sum(w) for g in groups for w in g.acting.written)
    assert manifest.source.environment["name"] == "look:Look"


def test_distributions_are_those_of_the_model_at_the_policys_tokens(tmp_path, place, broad):
    with open_plan(broad(), tmp_path / "run") as plan:
        store_stage(plan, Silent())
    model = load_model(place / "model", device="cpu")
    rows = load_store(tmp_path / "run" / "stores" / "broad")
    asked = [row for row in rows if not all(row.written)][:3]
    assert asked
    for row in [*asked, *rows[:3]]:
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        with torch.no_grad():
            table = model(input_ids=ids).logits[0].log_softmax(-1)
        table = table[len(row.prompt_ids) - 1 : -1][torch.tensor(row.written)]
        for told, some, logs, own, mine in zip(
            table, row.token_ids, row.logprobs, row.own_tokens, row.ref_logprobs, strict=True
        ):
            assert own in some
            assert float(told[own]) == pytest.approx(mine, abs=1e-5)
            np.testing.assert_allclose(told[list(some)], logs, atol=5e-3)  # float16 in the file


def test_a_run_with_stores_that_stops_goes_on_to_the_bit(tmp_path, broad, monkeypatch):
    monkeypatch.setattr(store_stage_module, "CHUNK", 8)
    monkeypatch.setattr(making, "CHUNK", 8)
    dph.run(broad(), tmp_path / "whole")
    killed, write = iter(range(3)), TableParts.write

    def until_killed(self, *given):
        if next(killed, None) is None:
            raise KeyboardInterrupt
        return write(self, *given)

    monkeypatch.setattr(TableParts, "write", until_killed)
    with pytest.raises(KeyboardInterrupt):
        dph.run(broad(), tmp_path / "parts")
    monkeypatch.setattr(TableParts, "write", write)
    done = len(list((tmp_path / "parts/stores").glob("broad.partial/*.parquet")))
    draw, drawn = making.drawn_answers, []
    monkeypatch.setattr(making, "drawn_answers", lambda *a: drawn.append(a) or draw(*a))
    dph.run(broad(), tmp_path / "parts")
    assert digests(tmp_path / "whole") == digests(tmp_path / "parts")
    # Chunks of both stores, but for those that were kept.
    assert 0 < len(drawn) == 5 + 5 - done < 10
    assert (tmp_path / "whole/consolidation/stores/after/groups.parquet").is_file()


def test_learning_from_a_store_runs_no_tool(tmp_path, make_recipe, broad, monkeypatch):
    after = broad().stores["after"].model_dump(mode="json", exclude_none=True)
    alone = {"problems_per_step": 0, "rehearsal_per_step": 16, "minibatches": 1}
    recipe = make_recipe("consolidation", stores={"after": after}, train=alone)
    with open_plan(recipe, tmp_path / "run") as plan:
        store_stage(plan, Silent())
        forbid_episodes(monkeypatch)
        assert train_stage(plan, Silent()).step == 2


def test_a_store_is_of_one_class_and_its_limits(tmp_path, broad):
    def made(recipe):
        with open_plan(recipe, tmp_path / "run") as plan:
            return store_stage(plan, Silent())["broad"]

    first = made(broad())
    assert made(broad()) == first
    acting = broad().environment
    longer = acting.model_copy(update={"tokens": 5 * TURN})
    with pytest.raises(PoolError, match="environment tokens was 24, this run has 30"):
        made(broad().model_copy(update={"environment": longer}))
    (tmp_path / "look.py").write_text(CLASS + "\n# another rule\n")
    with pytest.raises(PoolError, match="environment version was"):
        made(broad())


def test_what_bounds_a_trajectory_is_part_of_what_was_made_with_it(tmp_path, make_recipe):
    run = tmp_path / "run"
    dph.run(make_recipe("grpo"), run)
    longer = make_recipe("grpo", environment={"tokens": 5 * TURN})
    digests = []
    for recipe in (make_recipe("grpo"), longer):
        with open_plan(recipe, run) as plan:
            evaluate_stage(plan, tmp_path / "evaluated", Silent(), model=plan.initial)
        kept = pq.read_schema(tmp_path / "evaluated" / "samples.parquet").metadata
        digests.append(kept[b"dph.digest"])
    assert digests[0] != digests[1]
    with open_plan(longer, run) as plan, pytest.raises(CheckpointError, match="settings"):
        train_stage(replace(plan, recipe=with_steps(longer, 3)), Silent())


def with_steps(recipe, steps):
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"steps": steps})})


def test_a_reward_of_the_class_says_which_stored_trajectories_are_right(tmp_path, broad):
    (tmp_path / "look.py").write_text(
        CLASS
        + "    def get_reward(self, messages):\n"
        + "        return float(messages[-1]['content'].strip() == self.value)\n"
    )
    with pytest.raises(SettingsError, match="cannot compare two answers"):
        dph.run(broad(), tmp_path / "refused")
    with open_plan(broad(values="correct"), tmp_path / "run") as plan:
        store_stage(plan, Silent())
    values = stored_values(tmp_path / "run" / "stores" / "broad")
    for group in stored(tmp_path / "run"):
        right = [end == group.problem.answer["value"] for end in group.acting.ends]
        assert [bool(v.correct) for v in values[group.problem.problem_id]] == right
    assert any(v.correct for group in values.values() for v in group)


def test_a_finished_agent_is_consolidated_after_a_forecast(tmp_path, make_recipe, broad):
    dph.run(make_recipe("grpo"), tmp_path / "run")
    broad()  # writes the file of prompts
    asked = ["consolidate", str(tmp_path / "run"), "--prompts", str(tmp_path / "more.jsonl")]
    told = ('allow_overlap=["dev"]', "answers=4")
    for setting in ("consolidation.updates=2", *(f"stores.after.{each}" for each in told)):
        asked += ["--set", setting]
    asked += ["--out", str(tmp_path / "after")]
    assert main([*asked, "--forecast-prompts", "6"]) == 0
    forecast = json.loads((tmp_path / "after" / "forecast.json").read_text())
    assert forecast["spent"]["answers"] == 6 * (4 + 1) + 6 * 4 + 4
    groups = stored(tmp_path / "after", "stores/after")
    assert sum(not all(w) for group in groups for w in group.acting.written) > 0
    assert (tmp_path / "after" / "checkpoints" / "step_000002").is_dir()


def test_unlabelled_questions_are_rewarded_for_what_trajectories_came_to(
    tmp_path, make_recipe, broad
):
    broad()
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

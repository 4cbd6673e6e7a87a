"""Evaluation during training: what it measures, and that training does not notice it."""

import json
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dph.errors import CheckpointError, VerifierError
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import resolve_recipe
from dph.runs.directory import latest_checkpoint
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.evaluate.metrics import pass_at_k
from dph.runs.evaluate.progress_file import measured_steps, read_progress_file, rows_of_step
from dph.runs.train import evaluations, loop
from dph.runs.train.evaluations import Evaluations, InitialPolicy
from dph.runs.train.loop import train
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.preparation import Actors
from dph.runs.train.tracking import Trackers, read_metrics, shown_answers
from reproducible_log import reproducible_log


def make_recipe(every=2, train=(), track=(), **evaluate):
    return resolve_recipe(
        {
            "track": dict(track),
            "method": "grpo",
            "model": {"path": "letters", "dtype": "float32"},
            "data": {"train": "letters.jsonl", "sets": {"dev": "dev.jsonl"}},
            "sampling": {"max_tokens": 8},
            "train": {
                "steps": 4,
                "problems_per_step": 4,
                "samples_per_problem": 4,
                "learning_rate": 1e-2,
                "checkpoint_every": 3,
                **dict(train),
            },
            "evaluate": {"every": every, "during": {"samples": 4, "k": [1, 4]}, **evaluate},
        }
    )


@pytest.fixture
def start(make_model, make_draw, tokenizer, problems):
    """Train from the newest checkpoint in a directory, measuring where the recipe asks for it."""

    def run(recipe, directory, verifier=None, on_step=lambda _: None):
        policy, initial = make_model(), make_model()
        checkpoint = latest_checkpoint(directory / "checkpoints")
        if checkpoint:
            policy = type(policy).from_pretrained(checkpoint)
        draw = make_draw(policy)
        measuring = None
        if recipe.evaluate.every:
            forward = TrainingForward(
                model=policy,
                pad_id=0,
                temperature=1.0,
                dtype="float32",
                token_budget=512,
                max_tokens=8,
                reference=initial,
            )
            dev = make_draw(policy)
            measuring = Evaluations(
                directory,
                [EvaluationSet(name="dev", problems=problems[:6], draw=dev)],
                recipe.evaluate,
                digest=str(recipe.evaluate.during.samples),
                initial=InitialPolicy(sampler=TorchSampler(initial, tokenizer), forward=forward),
                shown=shown_answers(recipe.track),
            )
            if verifier is not None:
                object.__setattr__(dev, "verifier", verifier)
        actors = Actors(
            policy=policy, tokenizer=tokenizer, reference=None, draw=draw, evaluations=measuring
        )
        with measuring or nullcontext():
            return train(
                recipe,
                directory,
                actors,
                problems,
                {},
                digest="d",
                loaded=checkpoint,
                on_step=on_step,
            )

    return run


class Killed(BaseException):
    pass


def killed_after(step):
    def kill(metrics):
        if metrics["step"] == step:
            raise Killed

    return kill


def test_where_nothing_was_trained_the_initial_policy_is_measured_anew(start, tmp_path):
    recipe = make_recipe()
    with pytest.raises(Killed):
        start(recipe, tmp_path / "run", on_step=killed_after(1))  # before the first checkpoint
    path = tmp_path / "run" / "progress.parquet"
    measured = progress(tmp_path / "run")
    zero = pa.array([0] * len(measured), measured.schema.field("correct").type)
    other = measured.set_column(
        measured.schema.get_field_index("correct"), measured.schema.field("correct"), zero
    )
    pq.write_table(other, path)  # as of a model that is never right
    start(recipe, tmp_path / "run")
    whole = start(recipe, tmp_path / "whole")
    assert whole.step == 4
    assert progress(tmp_path / "run").equals(progress(tmp_path / "whole"))


def progress(directory):
    return read_progress_file(directory / "progress.parquet")


def test_it_changes_no_weight_and_says_what_the_definitions_say(start, tmp_path):
    plain = start(make_recipe(every=0), tmp_path / "plain")
    measured = start(make_recipe(), tmp_path / "measured")
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (plain.checkpoint / name).read_bytes() == (measured.checkpoint / name).read_bytes()
    assert not (tmp_path / "plain" / "progress.parquet").exists()
    before, after = (
        [
            {k: v for k, v in line.items() if not k.startswith("eval/")}
            for line in reproducible_log(tmp_path / name)
        ]
        for name in ("plain", "measured")
    )
    assert before == after

    table = progress(tmp_path / "measured")
    assert measured_steps(table) == [0, 2, 4]
    assert table.num_rows == 3 * 6
    lines = {line["step"]: line for line in read_metrics(tmp_path / "measured" / "metrics.jsonl")}
    assert [step for step, line in lines.items() if "eval/dev/mean" in line] == [2, 4]
    rows = rows_of_step(table, 4).to_pylist()
    assert {row["samples"] for row in rows} == {4}
    expected = sum(pass_at_k(4, row["correct"], 4) for row in rows) / 6
    found = lines[4]
    assert found["eval/dev/pass_at_4"] == pytest.approx(expected, abs=1e-12)
    assert found["eval/dev/pass_at_4_lo"] <= expected <= found["eval/dev/pass_at_4_hi"]
    assert found["eval/dev/pass_at_1"] == pytest.approx(found["eval/dev/mean"], abs=1e-12)
    tokens = sum(row["compared_tokens"] for row in rows)
    kl = sum(row["reverse_kl"] * row["compared_tokens"] for row in rows) / tokens
    assert found["eval/dev/reverse_kl"] == pytest.approx(kl, rel=1e-9)
    assert kl > 0
    assert sum(v for k, v in found.items() if k.startswith("eval/dev/style_")) == pytest.approx(1)
    first = rows_of_step(table, 0).to_pylist()
    assert {row[name] for row in first for name in ("reverse_kl", "stored_forward_kl")} == {0.0}
    assert {row["stored_tokens"] for row in rows} <= {row["stored_tokens"] for row in first}


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_killed_run_ends_with_the_same_progress_file(start, tmp_path, step):
    recipe = make_recipe(train={"checkpoint_every": 1 if step == 2 else 3}, keep_best="mean")
    whole = start(recipe, tmp_path / "whole")
    with pytest.raises(Killed):
        start(recipe, tmp_path / "killed", on_step=killed_after(step))
    resumed = start(recipe, tmp_path / "killed")
    files = ("progress.parquet", "progress_initial.parquet", "checkpoints/best.json")
    for name in files:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (resumed.checkpoint / "model.safetensors").read_bytes() == (
        whole.checkpoint / "model.safetensors"
    ).read_bytes()
    lines = read_metrics(tmp_path / "killed" / "metrics.jsonl")
    assert [line["step"] for line in lines if "eval/dev/mean" in line] == [2, 4]


def test_a_run_that_began_without_measures_its_initial_policy_when_it_goes_on(start, tmp_path):
    start(make_recipe(), tmp_path / "whole")
    start(make_recipe(every=0, train={"steps": 2}), tmp_path / "later")
    start(make_recipe(), tmp_path / "later")
    assert progress(tmp_path / "later").equals(progress(tmp_path / "whole"))


def test_a_tracker_gets_a_table_of_the_answers_of_every_evaluation(start, tmp_path, monkeypatch):
    sent = []

    class Told(Trackers):
        def log_tables(self, tables, *, step):
            sent.extend((step, table) for table in tables)

    monkeypatch.setattr(loop, "open_trackers", lambda *_: Told(()))
    start(make_recipe(track={"to": ["wandb"], "answers": 7}), tmp_path / "told")
    plain = start(make_recipe(), tmp_path / "plain")
    assert [(step, table.name) for step, table in sent] == [(s, "samples/dev") for s in (0, 2, 4)]
    for step, table in sent:
        assert (len(table.rows), table.answers) == (7, 6 * 5)
        assert {row[0] for row in table.rows} == {step}
    told = tmp_path / "told" / "checkpoints" / plain.checkpoint.name
    weights = (told / "model.safetensors").read_bytes()
    assert weights == (plain.checkpoint / "model.safetensors").read_bytes()
    correct = {
        row["problem_id"]: row["correct"]
        for row in rows_of_step(progress(tmp_path / "told"), 4).to_pylist()
    }
    whole = sent[-1][1].rows[:5]  # the greedy answer and four samples of one problem
    assert len({row[1] for row in whole}) == 1
    drawn = [row for row in whole if row[3] != "greedy"]
    assert sum(row[5] == "CORRECT" for row in drawn) == correct[drawn[0][1]]


def test_the_best_checkpoint_is_kept_beside_the_newest(start, tmp_path):
    recipe = make_recipe(every=1, train={"steps": 5}, keep_best="dev/mean")
    start(recipe, tmp_path)
    scores = {
        line["step"]: line["eval/dev/mean"] for line in read_metrics(tmp_path / "metrics.jsonl")
    }
    best = max(scores, key=lambda step: (scores[step], -step))
    named = json.loads((tmp_path / "checkpoints" / "best.json").read_text())
    assert named == {"schema": 1, "step": best, "score": "dev/mean", "value": scores[best]}
    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("step_*"))
    assert kept == sorted({f"step_{best:06d}", "step_000005"})


def test_of_equal_checkpoints_the_first_is_the_best(start, tmp_path):
    still = {"steps": 3, "learning_rate": 1e-12}  # the same answers after every step
    start(make_recipe(every=1, train=still, keep_best="greedy"), tmp_path)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert len({line["eval/dev/greedy"] for line in lines}) == 1
    assert json.loads((tmp_path / "checkpoints" / "best.json").read_text())["step"] == 1
    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("step_*"))
    assert "step_000001" in kept


def test_a_measurement_of_which_nothing_can_be_graded_is_no_score(start, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluations, "best_score", lambda _summary, _by: None)
    trained = start(make_recipe(every=1, keep_best="mean"), tmp_path)
    assert trained.step == 4
    assert not (tmp_path / "checkpoints" / "best.json").exists()


def test_another_score_begins_anew_and_forgets_the_best_of_the_old_one(start, tmp_path):
    start(make_recipe(every=1, train={"steps": 2}, keep_best="mean"), tmp_path)
    start(make_recipe(every=1, keep_best="greedy"), tmp_path)
    named = json.loads((tmp_path / "checkpoints" / "best.json").read_text())
    scores = {
        line["step"]: line["eval/dev/greedy"]
        for line in read_metrics(tmp_path / "metrics.jsonl")
        if line["step"] >= 2  # whose weights were still there
    }
    best = max(scores, key=lambda step: (scores[step], -step))
    assert named == {"schema": 1, "step": best, "score": "greedy", "value": scores[best]}


def test_other_settings_are_refused_before_anything_is_written(start, tmp_path):
    start(make_recipe(train={"steps": 2}), tmp_path)
    before = (tmp_path / "progress.parquet").read_bytes()
    with pytest.raises(CheckpointError, match=r"progress\.parquet was measured with other sett"):
        start(make_recipe(during={"samples": 5}), tmp_path)
    assert (tmp_path / "progress.parquet").read_bytes() == before
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 2


class Raising:
    """Breaks as soon as it is asked."""

    name, version = "letter", "1"

    def grade(self, problems, responses):
        raise VerifierError(f"broken over {len(problems)} problems, {len(responses)} answers")

    def close(self):
        pass


def test_a_grader_that_breaks_ends_the_run_and_loses_no_measurement(start, tmp_path):
    recipe = make_recipe()
    start(recipe, tmp_path / "whole")
    start(
        recipe.model_copy(update={"train": recipe.train.model_copy(update={"steps": 1})}),
        tmp_path / "run",
    )
    with pytest.raises(VerifierError, match="broken over"):
        start(recipe, tmp_path / "run", verifier=Raising())
    assert latest_checkpoint(tmp_path / "run" / "checkpoints").name == "step_000002"
    assert measured_steps(progress(tmp_path / "run")) == [0]
    start(recipe, tmp_path / "run")
    assert progress(tmp_path / "run").equals(progress(tmp_path / "whole"))


def test_torch_is_left_in_the_state_it_was_in(start, tmp_path):
    torch.manual_seed(5)
    start(make_recipe(every=1, train={"steps": 1}), tmp_path)
    with_evaluation = torch.get_rng_state()
    torch.manual_seed(5)
    start(make_recipe(every=0, train={"steps": 1}), tmp_path / "plain")
    assert torch.equal(with_evaluation, torch.get_rng_state())

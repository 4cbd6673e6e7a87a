import dataclasses
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dph.errors import CheckpointError, DataError, VerifierError
from dph.model.sampler.torch.sampler import TorchSampler
from dph.runs.directory import latest_checkpoint
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.evaluate.metrics import pass_at_k
from dph.runs.evaluate.progress_file import measured_steps, read_progress_file, rows_of_step
from dph.runs.train import loop
from dph.runs.train.evaluations import (
    AnswerTokens,
    Evaluations,
    InitialPolicy,
    read_initial_answers,
    write_initial_answers,
)
from dph.runs.train.tracking import Trackers, read_metrics, shown_answers
from loop_parts import Killed, killed_after, letters_recipe, training_forward
from reproducible_log import reproducible_log


def make_recipe(every=2, train=(), track=(), **evaluate):
    return letters_recipe(
        track=dict(track),
        data={"train": "letters.jsonl", "sets": {"dev": "dev.jsonl"}},
        train={"checkpoint_every": 3, **dict(train)},
        evaluate={"every": every, "during": {"samples": 4, "k": [1, 4]}, **evaluate},
    )


@pytest.fixture(scope="module")
def start(start, make_model, make_draw, tokenizer, problems):
    """Train and measure where the recipe asks for it, with a verifier of the measurements."""

    def run(recipe, directory, verifier=None, **more):
        def measuring(policy, directory):
            initial, dev = make_model(), make_draw(policy)
            forward = training_forward(policy, token_budget=512, reference=initial)
            if verifier is not None:
                dev = dataclasses.replace(dev, verifier=verifier)
            return Evaluations(
                directory,
                [EvaluationSet(name="dev", problems=problems[:6], draw=dev)],
                recipe.evaluate,
                digest=str(recipe.evaluate.during.samples),
                initial=InitialPolicy(sampler=TorchSampler(initial, tokenizer), forward=forward),
                shown=shown_answers(recipe.track),
            )

        measuring = measuring if recipe.evaluate.every else None
        return start(recipe, directory, measuring=measuring, **more)

    return run


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """A run that nothing disturbed."""
    directory = tmp_path_factory.mktemp("whole")
    start(make_recipe(keep_best="mean"), directory)
    return directory


def test_where_nothing_was_trained_the_initial_policy_is_measured_anew(start, whole, tmp_path):
    recipe = make_recipe()
    with pytest.raises(Killed):
        start(recipe, tmp_path, on_step=killed_after(1))  # before the first checkpoint
    measured = progress(tmp_path)
    zero = pa.array([0] * len(measured), measured.schema.field("correct").type)
    place = measured.schema.get_field_index("correct")
    never_right = measured.set_column(place, measured.schema.field("correct"), zero)
    pq.write_table(never_right, tmp_path / "progress.parquet")
    assert start(recipe, tmp_path).step == 4
    assert progress(tmp_path).equals(progress(whole))


def progress(directory):
    return read_progress_file(directory / "progress.parquet")


def test_it_changes_no_weight_and_says_what_the_definitions_say(start, whole, tmp_path):
    plain = start(make_recipe(every=0), tmp_path).checkpoint
    for name in ("model.safetensors", "optimizer.safetensors"):
        measured = whole / "checkpoints" / plain.name / name
        assert (plain / name).read_bytes() == measured.read_bytes()
    assert not (tmp_path / "progress.parquet").exists()
    before, after = (
        [
            {k: v for k, v in line.items() if not k.startswith("eval/")}
            for line in reproducible_log(directory)
        ]
        for directory in (tmp_path, whole)
    )
    assert before == after

    table = progress(whole)
    assert measured_steps(table) == [0, 2, 4]
    assert table.num_rows == 3 * 6
    lines = {line["step"]: line for line in read_metrics(whole / "metrics.jsonl")}
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


@pytest.mark.parametrize("step", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_a_killed_run_ends_with_the_same_progress_file(start, whole, tmp_path, step):
    recipe = make_recipe(train={"checkpoint_every": 1 if step == 2 else 3}, keep_best="mean")
    with pytest.raises(Killed):
        start(recipe, tmp_path, on_step=killed_after(step))
    weights = f"checkpoints/{start(recipe, tmp_path).checkpoint.name}/model.safetensors"
    for name in ("progress.parquet", "progress_initial.parquet", "checkpoints/best.json", weights):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines if "eval/dev/mean" in line] == [2, 4]


def test_a_run_that_began_without_measures_its_initial_policy_when_it_goes_on(
    start, whole, tmp_path
):
    start(make_recipe(every=0, train={"steps": 2}), tmp_path)
    start(make_recipe(), tmp_path)
    assert progress(tmp_path).equals(progress(whole))


def test_a_tracker_gets_a_table_of_the_answers_of_every_evaluation(
    start, whole, tmp_path, monkeypatch
):
    sent = []

    class Told(Trackers):
        def log_tables(self, tables, *, step):
            sent.extend((step, table) for table in tables)

    monkeypatch.setattr(loop, "open_trackers", lambda *_: Told(()))
    told = start(make_recipe(track={"to": ["wandb"], "answers": 7}), tmp_path).checkpoint
    assert [(step, table.name) for step, table in sent] == [(s, "samples/dev") for s in (0, 2, 4)]
    for step, table in sent:
        assert (len(table.rows), table.answers) == (7, 6 * 5)
        assert {row[0] for row in table.rows} == {step}
    plain = whole / "checkpoints" / told.name / "model.safetensors"
    assert (told / "model.safetensors").read_bytes() == plain.read_bytes()
    correct = {
        row["problem_id"]: row["correct"] for row in rows_of_step(progress(tmp_path), 4).to_pylist()
    }
    whole = sent[-1][1].rows[:5]  # the greedy answer and four samples of one problem
    assert len({row[1] for row in whole}) == 1
    drawn = [row for row in whole if row[3] != "greedy"]
    assert sum(row[5] == "CORRECT" for row in drawn) == correct[drawn[0][1]]


def scores(directory, metric):
    lines = read_metrics(directory / "metrics.jsonl")
    return {line["step"]: line[f"eval/dev/{metric}"] for line in lines}


def best_of(directory):
    return json.loads((directory / "checkpoints" / "best.json").read_text())


def test_the_best_checkpoint_is_kept_beside_the_newest(start, tmp_path):
    recipe = make_recipe(every=1, train={"steps": 3}, keep_best="dev/mean")
    start(recipe, tmp_path)
    found = scores(tmp_path, "mean")
    best = max(found, key=lambda step: (found[step], -step))
    assert best_of(tmp_path) == {
        "schema": 1,
        "step": best,
        "score": "dev/mean",
        "value": found[best],
    }
    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("step_*"))
    assert kept == sorted({f"step_{best:06d}", "step_000003"})


def test_of_equal_checkpoints_the_first_is_the_best(start, tmp_path):
    still = {"steps": 2, "learning_rate": 1e-12}  # the same answers after every step
    start(make_recipe(every=1, train=still, keep_best="greedy"), tmp_path)
    assert len({*scores(tmp_path, "greedy").values()}) == 1
    assert best_of(tmp_path)["step"] == 1
    assert (tmp_path / "checkpoints" / "step_000001").exists()


def test_another_score_begins_anew_and_forgets_the_best_of_the_old_one(start, tmp_path):
    start(make_recipe(every=1, train={"steps": 2}, keep_best="mean"), tmp_path)
    start(make_recipe(every=1, keep_best="greedy"), tmp_path)
    found = scores(tmp_path, "greedy")
    best = max([2, 3, 4], key=lambda step: (found[step], -step))  # whose weights were still there
    assert best_of(tmp_path) == {"schema": 1, "step": best, "score": "greedy", "value": found[best]}


def test_other_settings_are_refused_before_anything_is_written(start, whole):
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"progress\.parquet was measured with other sett"):
        start(make_recipe(train={"steps": 5}, during={"samples": 5}), whole)
    assert before == {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}


class Raising:
    """Breaks as soon as it is asked."""

    name, version = "letter", "1"

    def grade(self, problems, responses):
        raise VerifierError(f"broken over {len(problems)} problems, {len(responses)} answers")

    def close(self):
        pass


def test_a_grader_that_breaks_ends_the_run_and_loses_no_measurement(start, whole, tmp_path):
    recipe = make_recipe()
    start(make_recipe(train={"steps": 1}), tmp_path)
    with pytest.raises(VerifierError, match="broken over"):
        start(recipe, tmp_path, verifier=Raising())
    assert latest_checkpoint(tmp_path / "checkpoints").name == "step_000002"
    assert measured_steps(progress(tmp_path)) == [0]
    start(recipe, tmp_path)
    assert progress(tmp_path).equals(progress(whole))


def test_torch_is_left_in_the_state_it_was_in(start, tmp_path):
    torch.manual_seed(5)
    start(make_recipe(every=1, train={"steps": 1}), tmp_path)
    with_evaluation = torch.get_rng_state()
    torch.manual_seed(5)
    start(make_recipe(every=0, train={"steps": 1}), tmp_path / "plain")
    assert torch.equal(with_evaluation, torch.get_rng_state())


def test_a_damaged_file_is_named(tmp_path):
    path, asked = tmp_path / "progress_initial.parquet", {"dev": ["a"]}
    path.write_bytes(b"x")
    with pytest.raises(DataError, match="is damaged"):
        read_initial_answers(path, asked, digest="d")
    acted = {"dev": [[AnswerTokens((1, 2, 3), (True, False, True))]]}
    write_initial_answers(path, acted, asked, digest="d")
    assert read_initial_answers(path, asked, digest="d") == acted
    assert read_initial_answers(path, asked, digest="e") is None
    with pytest.raises(DataError, match="is damaged"):
        read_initial_answers(path, {"dev": ["a", "b"]}, digest="d")

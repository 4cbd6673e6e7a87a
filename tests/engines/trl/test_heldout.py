"""Held-out Pass@k while TRL trains: what is measured, written, logged and refused."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from dph import Problem, compare, evaluate
from dph._base.files import read_json
from dph.engines.trl import PassAtKCallback
from dph.engines.trl.heldout import TrainerSampler, _can_sample_here
from dph.errors import CheckpointError, ModelError, SettingsError
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.results.notebook import report
from dph.results.paper_models import FigureRequest, read_progress
from dph.results.read.found_runs import compared_runs
from dph.runs.evaluate.samples_file import read_samples
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.problems import save_problems
from engines.trl.processes import run_two_processes
from engines.trl.small import (
    TEMPERATURE,
    grpo_config,
    make_config,
    make_small_model,
    make_trainer,
    problems,
    weights_of,
)
from environment_classes import IncrementTo
from tiny_models import build_tokenizer

GRADER = "length_grader:grade"


def grpo(directory, *, callback=None, model=None, **changes):
    trainer = make_trainer(grpo_config(directory, **changes), trainer=GRPOTrainer, model=model)
    if callback is not None:
        callback.attach(trainer)
    trainer.train()
    return trainer


def heldout(**changes):
    return PassAtKCallback(problems(), GRADER, **{"every": 10, "seed": 3, **changes})


def logged(trainer, name):
    return {e["step"]: e[name] for e in trainer.state.log_history if name in e}


def evaluated(directory, model, *, method="grpo"):
    """What ``dph evaluate`` says of a model, with the callback's seed and settings."""
    base = directory / "initial"
    make_small_model().save_pretrained(base)
    build_tokenizer().save_pretrained(base)
    save_problems(directory / "problems.jsonl", problems())
    (directory / "recipe.toml").write_text(
        f"""
        method = "{method}"
        model.path = "initial"
        data.train = "problems.jsonl"
        data.sets.heldout = "problems.jsonl"
        data.verifier = "{GRADER}"
        sampling = {{ max_tokens = 6, temperature = {TEMPERATURE} }}
        evaluate = {{ samples = 16, temperature = {TEMPERATURE}, seed = 3, k = [1, 8, 16] }}
        """
    )
    document = evaluate(directory / "recipe.toml", directory / "measured", model=model)
    return document, directory / "measured"


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """Thirty steps of TRL's own trainer with the callback, and its weights."""
    directory = tmp_path_factory.mktemp("followed")
    trainer = grpo(directory, callback=heldout(), max_steps=30, learning_rate=2e-3)
    trainer.save_model()
    return trainer, directory


def test_the_last_measurement_is_that_of_evaluate_to_the_bit(followed):
    trainer, directory = followed
    run = directory / "run"
    document, measured = evaluated(directory, run)
    place = measured / "models" / "run"
    assert read_samples(run / "samples.parquet").equals(read_samples(place / "samples.parquet"))
    assert read_samples(run / "base/samples.parquet").equals(
        read_samples(measured / "base/samples.parquet")
    )
    assert read_json(run / "evaluation.json")["sets"] == document["sets"]
    last = document["sets"]["heldout"]
    for name, value in {
        "pass_at_16": last["pass_at_k"]["16"],
        "pass_at_8_lo": last["ci95"]["pass_at_8"][0],
        "greedy": last["greedy"],
        "keep": last["keep"],
        "explore_null": last["explore_null"],
    }.items():
        assert logged(trainer, f"eval_heldout/{name}")[30] == value, name


def test_every_measurement_goes_to_the_trackers_once(followed):
    trainer, _ = followed
    assert list(logged(trainer, "eval_heldout/pass_at_16")) == [0, 10, 20, 30]
    assert list(logged(trainer, "eval_heldout/seconds")) == [0, 10, 20, 30]
    assert list(logged(trainer, "reward")) == list(range(1, 31))
    assert 0 < logged(trainer, "eval_heldout/share_of_time")[30] < 1


def test_every_measurement_is_in_the_figure_of_progress(followed):
    trainer, directory = followed
    found = read_progress(FigureRequest(places=[directory / "run"]))
    (steps,) = found.runs.values()
    drawn = {step: sets["heldout"]["pass_at_k"]["8"] for step, sets in steps.items()}
    assert drawn == logged(trainer, "eval_heldout/pass_at_8")


def test_training_is_the_same_as_without_it_to_the_bit(tmp_path):
    plain, own, by_trainer = (
        weights_of(grpo(tmp_path / name, callback=callback))
        for name, callback in [
            ("plain", None),
            ("own", heldout(every=1)),
            ("by_trainer", heldout(every=1, sampler="trainer")),
        ]
    )
    for name, tensor in plain.items():
        assert torch.equal(tensor, own[name]), name
        assert torch.equal(tensor, by_trainer[name]), name


def test_the_trainers_own_generation_agrees_within_the_intervals(tmp_path):
    theirs, ours = (
        grpo(tmp_path / one, callback=heldout(sampler=one, samples=100), max_steps=1)
        for one in ("trainer", "auto")
    )
    low, high = (
        [logged(one, f"eval_heldout/pass_at_16_{end}")[0] for one in (theirs, ours)]
        for end in ("lo", "hi")
    )
    assert max(low) <= min(high)  # both are draws: their intervals have values in common
    shares = [logged(one, "eval_heldout/pass_at_1")[0] for one in (theirs, ours)]
    share, answers = sum(shares) / 2, 100 * len(problems())
    # Three standard errors of a difference of two shares.
    assert abs(shares[0] - shares[1]) < 3 * math.sqrt(2 * share * (1 - share) / answers)
    greedy = [logged(one, "eval_heldout/greedy")[0] for one in (theirs, ours)]
    assert greedy[0] == greedy[1]


def test_a_model_that_our_sampler_refuses_is_sampled_by_the_trainer(tmp_path, monkeypatch, caplog):
    def refuse(*_, **__):
        raise ModelError("its layers keep a recurrent state")

    monkeypatch.setattr("dph.engines.trl.heldout.TorchSampler", refuse)
    trainer = grpo(tmp_path, callback=heldout(every=1), max_steps=1)
    assert set(logged(trainer, "eval_heldout/pass_at_16")) == {0, 1}
    assert "trainer's own generation draws held-out answers: its layers keep a rec" in caplog.text


def test_the_directory_is_a_run_for_report_and_compare(followed):
    _, directory = followed
    run = directory / "run"
    assert compared_runs([run])[0] == [run / "base", run]
    assert any(row.metric == "pass_at_16" and row.difference for row in compare(run / "base", run))
    page = report(run, out=directory / "report.html")
    assert page.stat().st_size > 100_000
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(31))
    assert "eval/heldout/pass_at_16" in lines[10]
    assert "reward" in lines[10]


def test_an_adapter_is_measured_with_rehearsal_too(directory):
    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trainer = make_trainer(make_config(directory), peft_config=adapter)
    heldout(every=3).attach(trainer)
    trainer.train()
    trainer.save_model()
    document, _ = evaluated(directory, directory / "run")
    found = document["sets"]["heldout"]["pass_at_k"]["16"]
    assert logged(trainer, "eval_heldout/pass_at_16")[3] == found


@pytest.mark.slow
def test_two_processes_measure_what_one_does(followed, tmp_path):
    _, directory = followed
    run_two_processes("ddp_heldout.py", tmp_path)
    one, two = (read_samples(place / "run/base/samples.parquet") for place in (directory, tmp_path))
    assert two.equals(one)


def test_a_resumed_run_keeps_the_measurement_before_training(tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 2}
    first = grpo(tmp_path, callback=heldout(every=2), max_steps=2, **saving)
    before = (tmp_path / "run/base/samples.parquet").read_bytes()
    trainer = make_trainer(grpo_config(tmp_path, max_steps=4, **saving), trainer=GRPOTrainer)
    heldout(every=2).attach(trainer)
    trainer.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
    assert (tmp_path / "run/base/samples.parquet").read_bytes() == before
    assert {0, 2, 4} <= set(logged(trainer, "eval_heldout/pass_at_16"))
    assert logged(trainer, "eval_heldout/greedy")[2] == logged(first, "eval_heldout/greedy")[2]
    assert 4 in logged(trainer, "eval_heldout/keep")
    again = make_trainer(grpo_config(tmp_path, max_steps=4, **saving), trainer=GRPOTrainer)
    heldout(every=2, seed=4).attach(again)
    with pytest.raises(CheckpointError, match="was measured with other problems, another verif"):
        again.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
    first.train()  # once more, with a verifier that the callback closed
    assert {0, 2} <= set(logged(first, "eval_heldout/pass_at_16"))


def test_with_vllm_the_trainer_is_asked_for_answers_one_by_one(tmp_path):
    asked = []

    class Engine(SimpleNamespace):
        def generate(self, prompts, num_generations, **_):
            asked.append((num_generations, self.temperature, self.max_completion_length))
            return None, [[4, 5, 1, 0] for _ in prompts], [[(-1.0,)] * 4 for _ in prompts], None

    trainer = make_trainer(grpo_config(tmp_path), trainer=GRPOTrainer)
    trainer.use_vllm, trainer._last_loaded_step = True, 0
    trainer.vllm_generation = Engine(temperature=0.9, top_p=1.0, max_completion_length=6)
    assert not _can_sample_here(trainer, trainer.model)
    requests = [SampleRequest(problem_id=p, prompt_ids=(3, 4), samples=2) for p in "ab"]
    likeliest = SamplingParameters(max_tokens=5, stop_token_ids=(1,), greedy=True)
    groups = TrainerSampler(trainer).sample(requests, likeliest, seed=0)
    assert asked == [(1, 0.0, 5)]
    assert [[one.text for one in group] for group in groups] == [["w4 w5"] * 2] * 2
    assert all(one.finished and one.length == 3 for group in groups for one in group)
    assert (trainer.vllm_generation.temperature, trainer.num_generations) == (0.9, 4)


def test_what_cannot_be_measured_is_refused(tmp_path):
    for changes, message in [
        ({"every": 0}, "every must be at least 1 optimizer step, got 0"),
        ({"k": (1, 32)}, "need 1 <= k <= samples, got k=32, samples=16"),
        ({"sampler": "vllm"}, "sampler must be"),
    ]:
        with pytest.raises(SettingsError, match=message):
            heldout(**changes)
    with (
        EnvironmentVerifier(Environment(IncrementTo), None) as acting,
        pytest.raises(SettingsError, match="measures answers, not trajectories"),
    ):
        PassAtKCallback([Problem(problem_id="p", prompt="?")], acting)
    trainer = make_trainer(
        grpo_config(tmp_path), trainer=GRPOTrainer, callbacks=[callback := heldout()]
    )
    with pytest.raises(SettingsError, match=r"PassAtKCallback\(...\).attach\(trainer\)"):
        trainer.train()
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run/recipe.toml").write_text("")
    trainer.remove_callback(callback)
    callback.attach(trainer)
    with pytest.raises(SettingsError, match="is a run of `dph run`"):
        trainer.train()
    with pytest.raises(SettingsError, match=r"another PassAtKCallback writes to .*run: name"):
        heldout(name="other").attach(trainer)
    heldout(name="other", out=tmp_path / "other").attach(trainer)

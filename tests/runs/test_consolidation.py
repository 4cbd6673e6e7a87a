"""Consolidation: what follows RL is a run of its own on the trained policy's answers."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dph.errors import CheckpointError, SettingsError
from dph.model.loading import load_model
from dph.model.policies import weight_fingerprint
from dph.runs.directory import RunDirectory
from dph.runs.plan import open_plan
from dph.runs.presample.manifest import read_manifest
from dph.runs.presample.stores.store import load_store
from dph.runs.progress import Silent
from dph.runs.run import consolidation_recipe, run_stages
from dph.tasks.problems import save_problems
from reproducible_log import reproducible_log
from runs.test_broad import UNLABELLED


@pytest.fixture
def recipe(make_recipe, tmp_path):
    def make(*, updates=4, final_rate=1.0, tilt=4.0, rate=1.0, rows=16, **store):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        table = {
            "file": str(tmp_path / "unlabelled.jsonl"),
            "answers": 4,
            "tilt": tilt,
            "agreement": "own_agreement:first_letter",
            **store,
        }
        return make_recipe(
            "grpo",
            stores={"after": table},
            train={"steps": 2, "checkpoint_every": 2},
            consolidation={
                "updates": updates,
                "samples": "store:after",
                "rows": rows,
                "rate": rate,
                "final_rate": final_rate,
                "checkpoint_every": 2,
            },
            data={"sets": {}},
        )

    return make


def run(recipe, directory):
    with open_plan(recipe, directory) as plan:
        return run_stages(plan, Silent())


def test_the_trained_policy_fills_the_store_and_learns_from_it_alone(recipe, tmp_path):
    result = run(recipe(updates=12), tmp_path / "run")
    after = tmp_path / "run" / "consolidation"
    rl = load_model(tmp_path / "run" / "checkpoints" / "step_000002", device="cpu")
    source = read_manifest(after / "stores" / "after", "store").source
    assert source.model_fingerprint == weight_fingerprint(rl)
    rows = reproducible_log(after)
    assert [row["tokens"] for row in rows] == [0] * 12
    assert all(row["reward"] is None for row in rows)
    assert result.trained.checkpoint == after / "checkpoints" / "step_000012"
    assert RunDirectory(tmp_path / "run").result(recipe().evaluate) == result.trained.checkpoint


def test_rl_does_not_continue_under_a_consolidation(recipe, tmp_path):
    run(recipe(), tmp_path / "run")
    longer = recipe()
    longer = longer.model_copy(update={"train": longer.train.model_copy(update={"steps": 4})})
    after = tmp_path / "run" / "consolidation"
    with pytest.raises(CheckpointError, match=r"follows RL of 2 steps, and train\.steps = 4: move"):
        run(longer, tmp_path / "run")
    assert steps_in(tmp_path / "run") == [1, 2]  # no step of RL was paid for
    after.rename(tmp_path / "before")
    run(longer, tmp_path / "run")
    assert steps_in(tmp_path / "run") == [1, 2, 3, 4]


def steps_in(directory):
    return [row["step"] for row in reproducible_log(directory)]


def test_untilted_answers_of_the_policy_teach_it_nothing(recipe, tmp_path):
    run(recipe(updates=1, tilt=0.0), tmp_path)
    (row,) = reproducible_log(tmp_path / "consolidation")
    assert row["divergence"] == pytest.approx(0, abs=1e-4)  # float16 is all that differs
    assert row["grad_norm"] == pytest.approx(0, abs=1e-2)


def test_chosen_answers_are_learnt_by_their_likelihood(recipe, tmp_path):
    """The first update, by the trained policy's own forward and its gradient."""
    voted = {"values": "majority", "targets": "answers", "tilt": 0.0}
    run(recipe(updates=1, rows=10**6, **voted), tmp_path / "run")
    (row,) = reproducible_log(tmp_path / "run" / "consolidation")
    path = tmp_path / "run" / "consolidation" / "stores" / "after"
    chosen = load_store(path, values="majority", targets="answers")
    model = load_model(tmp_path / "run" / "checkpoints" / "step_000002", device="cpu")
    total, tokens = torch.zeros(()), sum(len(sample.completion_ids) for sample in chosen)
    for sample in chosen:
        ids = torch.tensor([[*sample.prompt_ids, *sample.completion_ids]])
        logits = model(input_ids=ids).logits[0, len(sample.prompt_ids) - 1 : -1]
        total = total + torch.nn.functional.cross_entropy(
            logits, torch.tensor(sample.completion_ids), reduction="sum"
        )
    (total / tokens).backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert row["divergence"] == pytest.approx((total / tokens).item(), rel=1e-5)
    assert row["grad_norm"] == pytest.approx(gradient.norm().item(), rel=1e-4)
    assert 0 < len(chosen) < 4 * len(UNLABELLED)


def test_a_stopped_run_on_chosen_answers_ends_with_the_same_weights(recipe, tmp_path):
    voted = {"values": "majority", "targets": "answers", "tilt": 0.0}
    run(recipe(**voted), tmp_path / "whole")
    run(recipe(updates=2, **voted), tmp_path / "halves")
    run(recipe(**voted), tmp_path / "halves")
    one, other = (
        (tmp_path / name / "consolidation/checkpoints/step_000004/model.safetensors").read_bytes()
        for name in ("whole", "halves")
    )
    assert one == other


def test_other_targets_do_not_go_on(recipe, tmp_path):
    run(recipe(updates=2, values="majority"), tmp_path)
    with pytest.raises(CheckpointError, match=r"stores\.after\.targets was 'distributions', now"):
        run(recipe(values="majority", targets="answers", tilt=0.0), tmp_path)


def test_without_updates_nothing_follows(recipe, tmp_path):
    result = run(recipe(updates=0), tmp_path / "run")
    assert result.trained.checkpoint == tmp_path / "run" / "checkpoints" / "step_000002"
    assert not (tmp_path / "run" / "consolidation").exists()


def test_a_stopped_consolidation_ends_with_the_same_weights(recipe, tmp_path):
    run(recipe(), tmp_path / "whole")
    run(recipe(updates=2), tmp_path / "halves")
    run(recipe(), tmp_path / "halves")
    one, other = (
        load_file(tmp_path / name / "consolidation/checkpoints/step_000004/model.safetensors")
        for name in ("whole", "halves")
    )
    assert all((one[name] == other[name]).all() for name in one)
    whole, halves = (reproducible_log(tmp_path / n / "consolidation") for n in ("whole", "halves"))
    assert whole == halves


def test_the_learning_rate_falls_in_a_straight_line(recipe, tmp_path):
    run(recipe(updates=4, final_rate=0.2, rate=0.5), tmp_path / "run")
    rates = [row["learning_rate"] for row in reproducible_log(tmp_path / "run" / "consolidation")]
    assert rates == pytest.approx([0.005, 0.004, 0.003, 0.002])  # a fifth of it would be the fifth


def test_its_only_term_is_the_store_at_weight_one(recipe):
    follows = consolidation_recipe(recipe(rate=0.5), Path("rl"))
    (anchor,) = follows.objective.anchors.values()
    assert (anchor.divergence, anchor.store) == ("distribution_kl", "after")
    assert (anchor.weight, anchor.per_step) == (1.0, 16)
    assert follows.train.problems_per_step == 0
    assert follows.train.learning_rate == 0.5 * recipe().train.learning_rate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"consolidation": {"updates": 3}}, "updates=3 needs samples = 'store:NAME'"),
        (
            {"consolidation": {"updates": 3, "samples": "store:x"}},
            "'store:x' does not name",
        ),
        ({"train": {"problems_per_step": 0}}, "problems_per_step = 0 draws nothing"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(make_recipe, change, message):
    with pytest.raises(SettingsError, match=message):
        make_recipe("grpo", **change)


def test_a_missing_file_of_prompts_is_named_before_anything_is_drawn(make_recipe, tmp_path):
    store = {"answers": 4, "agreement": "own_agreement:first_letter"}
    recipe = make_recipe(
        "grpo", stores={"after": store}, consolidation={"updates": 2, "samples": "store:after"}
    )
    with pytest.raises(SettingsError, match=r"stores\.after\.file"):
        run(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_run_that_follows_begins_with_a_checkpoint_and_no_revision(recipe):
    local = recipe(updates=1)
    model = local.model.model_copy(update={"path": "org/tiny", "revision": "a" * 40})
    named = local.model_copy(update={"model": model})
    follows = consolidation_recipe(named, Path("run/checkpoints/step_000002"))
    assert (follows.model.path, follows.model.revision) == ("run/checkpoints/step_000002", None)

"""The loss through verl's own TrainingWorker, against plain autograd of the same rows."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import first_step
from dph.engines.stages.memory import estimate_per_gpu
from dph.runs.memory import load_of, read_shape
from engines.stages.recipes import make_recipe
from engines.verl import rows
from own_terms import CONFIDENT, PLAIN

ETA = 0.3
POLICY, STORED = 8, 6
BASE = {"policy": POLICY, "stored": STORED, "eta": ETA, "divergence": "forward_kl"}
SHAPES = {
    "one_row_each": {"micro": 1},
    "padded": {},
    "whole": {"micro": 4},
    "packed": {"packed": True},
    "dynamic": {"dynamic": True},
    "packed_dynamic": {"packed": True, "dynamic": True},
}
FIRST_STEPS = {"answers": False, "trajectories": True}
"""Rows of a first step; those of trajectories have tokens that no policy wrote."""
DIVERGENCES = ("forward_kl", "jensen_shannon", "alpha", "reverse_kl", "definition")
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
IN_EVERY_SHAPE = {
    **{name: {"divergence": name} for name in DIVERGENCES},
    "own": {
        "objective": {
            "surrogate": {"kind": PLAIN},
            "penalties": {"mine": {"kind": CONFIDENT, "weight": 0.4, "power": 2.0}},
        }
    },
    "unbiased": {
        "divergence": "definition",
        "objective": {"penalties": {"kl": {"weight": 0.4, "estimator": "unbiased"}}},
    },
    "two": {
        "far": 3,
        "objective": {
            "anchors": {
                "near": {"divergence": "forward_kl", "weight": ETA},
                "far": {"divergence": "alpha", "weight": 0.7},
            }
        },
    },
    **{
        kind: {
            "stored": 0,
            "eta": first_step.ETA,
            "first_step": kind,
            "objective": first_step.OBJECTIVE,
        }
        for kind in FIRST_STEPS
    },
}
CASES = {
    f"{name}-{shape}": {**BASE, **case, **changes}
    for name, case in IN_EVERY_SHAPE.items()
    for shape, changes in SHAPES.items()
}
for mode in MODES:
    both = {**BASE, "aggregation": mode, "rejects": True}
    CASES |= {f"eta0-{mode}": {**both, "eta": 0.0}}
    CASES |= {f"verl-{mode}": {**both, "divergence": "verl", "stored": 0}}
CASES |= {
    "minibatches": {**BASE, "minibatches": 2},
    "rows": {**BASE, "normalisation": "rows"},
    "sequence_mean": {**BASE, "reduction": "sequence_mean"},
}


def run_ranks(ranks, directory):
    (directory / "cases.json").write_text(json.dumps(CASES))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("engine_run.py")
    common = {"OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(directory)],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate(timeout=480)[0] for process in processes]
    assert [p.returncode for p in processes] == [0] * ranks, outputs[0][-4000:]
    found = json.loads((directory / "found.json").read_text())
    return found | {"ranks": ranks, "model": directory / "model0"}


@pytest.fixture(scope="module", params=[1, 2], ids=["1 rank", "2 ranks"])
def found(request, tmp_path_factory):
    return run_ranks(request.param, tmp_path_factory.mktemp("engine"))


def test_every_rank_holds_the_share_of_weights_and_states_that_is_estimated(found):
    recipe = make_recipe("verl", **{"verl.gpus": found["ranks"]})
    load = load_of(recipe, prompt=20)
    expected = estimate_per_gpu(recipe, read_shape(found["model"]), load)
    for name, held in found["held"].items():
        assert held == pytest.approx(getattr(expected, name), rel=0.02), name


def require(result, loss, norm, *, rel=1e-5):
    assert result["loss"] == pytest.approx([loss], rel=rel)
    assert result["grad_norm"] == pytest.approx([norm], rel=rel)


def by_hand(divergence, *, eta=ETA, scales=(1.0, 1.0), unbiased=0.0, far=0.0):
    model, policy = rows.make_model(), rows.policy_rows(POLICY)
    samples = rows.stored_samples(STORED)
    loss = scales[0] * rows.policy_loss(model, policy)
    loss = loss + scales[1] * eta * rows.stored_loss(model, samples, divergence)
    if divergence == "definition":
        loss = loss + eta * rows.definition_policy_half(model, policy)
    loss = loss + unbiased * rows.unbiased_kl(model, policy)
    if far:
        others = rows.stored_samples(3, seed=rows.FAR)
        loss = loss + far * rows.stored_loss(model, others, "alpha")
    return rows.loss_and_norm(loss, model)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_loss_and_gradient_norm_are_those_of_plain_autograd(found, divergence, shape):
    require(found[f"{divergence}-{shape}"], *by_hand(divergence))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "acts"), FIRST_STEPS.items())
def test_the_first_step_has_the_loss_and_the_gradient_norm_of_our_own_engine(
    found, kind, acts, shape
):
    require(found[f"{kind}-{shape}"], *first_step.own_step(acts=acts), rel=first_step.AGREE)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_surrogate_and_a_penalty_of_ones_own_are_those_of_plain_autograd(found, shape):
    model = rows.make_model()
    loss = rows.own_policy_loss(model, rows.policy_rows(POLICY), 0.4)
    loss = loss + ETA * rows.stored_loss(model, rows.stored_samples(STORED), "forward_kl")
    require(found[f"own-{shape}"], *rows.loss_and_norm(loss, model))


@pytest.mark.parametrize("shape", SHAPES)
def test_an_unbiased_penalty_is_added_and_every_anchor_has_a_mean_over_its_own_rows(found, shape):
    require(found[f"unbiased-{shape}"], *by_hand("definition", unbiased=0.4))
    require(found[f"two-{shape}"], *by_hand("forward_kl", far=0.7))


@pytest.mark.parametrize("mode", MODES)
def test_with_eta_0_it_is_the_loss_of_verl_on_the_policy_rows_alone(found, mode):
    ours, theirs = found[f"eta0-{mode}"], found[f"verl-{mode}"]
    require(ours, *theirs["loss"], *theirs["grad_norm"], rel=1e-6)


def test_every_mini_batch_gets_its_share_of_stored_rows(found):
    assert found["minibatches"]["dph/stored_rows"] == [STORED / 2, STORED / 2]


def test_the_rows_normalisation_is_eta_times_stored_rows_by_policy_rows_up_to_a_factor(found):
    share = POLICY / (POLICY + STORED)
    loss, norm = by_hand("forward_kl", eta=ETA, scales=(share, 1 - share))
    require(found["rows"], loss, norm)
    separate, _ = by_hand("forward_kl", eta=ETA * STORED / POLICY)
    assert loss == pytest.approx(share * separate, rel=1e-6)


def test_the_share_of_clipped_tokens_is_that_of_the_mini_batch(found):
    shares = [found[f"forward_kl-{shape}"]["dph/clipped_high"] for shape in SHAPES]
    assert all(share == pytest.approx(shares[0]) != [0] for share in shares)


def test_the_largest_log_ratio_is_that_of_the_stored_answers(found):
    expected = max(
        float(x.detach().abs().max())
        for x in rows.log_ratios(rows.make_model(), rows.stored_samples(STORED))
    )
    assert found["forward_kl-padded"]["dph/log_ratio_max"] == pytest.approx([expected], rel=1e-5)


def test_a_sequence_mean_weighs_stored_answers_alike_whatever_their_length(found):
    model = rows.make_model()
    values = [(x.exp() - 1 - x).mean() for x in rows.log_ratios(model, rows.stored_samples(STORED))]
    loss = rows.policy_loss(model, rows.policy_rows(POLICY)) + ETA * sum(values) / len(values)
    require(found["sequence_mean"], *rows.loss_and_norm(loss, model))

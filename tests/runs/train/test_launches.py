"""What an update launches and waits for on a GPU, counted on a CPU (`counting_device`)."""

import random

import pytest

from counting_device import CountingDevice
from dph.recipe import resolve_recipe
from dph.recipe.methods import METHODS
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.loop import Learner
from lab.benchmarks.launches.ours import RandomAnswers, StepCounts, count_step, make_learner
from loop_parts import stored_answer
from tiny_models import VOCABULARY, build_model, build_tokenizer

PROBLEMS, PROMPT, LENGTHS = 2, 20, (2, 16)

A_LAYER = 165
"""Of forward and backward: attention 7 and 15, norms and rotary 26 and 47, SwiGLU and residuals 4
and 9, the products, their biases and autocast's casts the rest."""
BESIDE = 160
"""Embedding, head of one block, loss, clipping, AdamW."""
AN_ANCHOR, A_FORWARD = 110, (80, 60)
"""More terms of the loss with rows of their own; a forward without a gradient, and a layer's."""


def stored_row(number: int) -> RehearsalSample:
    rng = random.Random(number)
    prompt, tokens = (
        tuple(rng.randrange(3, VOCABULARY) for _ in range(count))
        for count in (9, rng.randint(2, 9))
    )
    return stored_answer(tokens, prompt=prompt, problem=str(number))


def learner_of(method: str, *, layers: int, samples: int) -> Learner:
    rows = PROBLEMS * samples
    recipe = resolve_recipe(
        {
            "method": method,
            "model": {"path": "model", "device": "cuda", "dtype": "bfloat16"},
            "data": {"train": "problems.jsonl"},
            "sampling": {"max_tokens": LENGTHS[1]},
            "self_consistency": {"problems_per_step": 0},  # drawn and graded before the update
            "train": {
                "problems_per_step": PROBLEMS,
                "samples_per_problem": samples,
                "rehearsal_per_step": rows,
                "minibatches": 1,
                "microbatch_tokens": 100_000,
                "shared_prompts": "always",
            },
        }
    )
    stored = [stored_row(i) for i in range(rows)]
    return make_learner(
        recipe,
        build_model("qwen2", num_hidden_layers=layers).to("cuda"),
        build_tokenizer(),
        RandomAnswers(vocabulary=VOCABULARY, prompt=PROMPT, lengths=LENGTHS),
        reference=build_model("qwen2", num_hidden_layers=layers).to("cuda"),
        stored=dict.fromkeys(recipe.objective.active_anchors, stored),
    )


def counted(method: str, *, layers: int, samples: int) -> tuple[StepCounts, Learner]:
    with CountingDevice() as device:
        learner = learner_of(method, layers=layers, samples=samples)
        return count_step(device, learner), learner


@pytest.mark.parametrize("layers", [1, 3])
def test_an_update_launches_so_many_kernels_a_layer_and_waits_three_times_at_most(layers):
    step, _ = counted("grpo", layers=layers, samples=2)
    assert step.microbatches == 1
    assert step.launches <= BESIDE + A_LAYER * layers
    assert step.waits <= 3


@pytest.mark.parametrize("samples", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_more_rows_of_a_micro_batch_launch_no_more_and_wait_no_more(samples):
    few, _ = counted("grpo", layers=2, samples=2)
    many, _ = counted("grpo", layers=2, samples=samples)
    assert few.microbatches == many.microbatches == 1
    assert many.launches == few.launches
    assert many.waits == few.waits


QUICK = {"grpo", "dph_js_definition", "flowrl"}
OF_ALL = [m if m in QUICK else pytest.param(m, marks=pytest.mark.slow) for m in sorted(METHODS)]


@pytest.mark.parametrize("method", OF_ALL)
def test_every_method_launches_as_much_for_16_as_for_40_rows(method):
    layers = 2
    few, learner = counted(method, layers=layers, samples=8)
    many, _ = counted(method, layers=layers, samples=20)
    forwards = (
        (learner.scorers.reference is not None)
        + (learner.forward.reference is not None)
        + (learner.scorers.old is not None and not learner.scorers.first_of)
    )
    beside, a_layer = (forwards * launches for launches in A_FORWARD)
    terms = len(learner.objective.anchors) + len(learner.objective.penalties)
    assert many.launches <= BESIDE + beside + AN_ANCHOR * terms + (A_LAYER + a_layer) * layers
    assert abs(many.launches - few.launches) <= 0.05 * few.launches
    assert few.waits == many.waits <= 1 + forwards

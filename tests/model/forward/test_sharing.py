import logging
import math
import random

import pytest

from counting_device import CountingDevice
from dph.errors import ModelError
from dph.model.forward import packing, sharing
from dph.model.forward.logprobs import completion_scores
from dph.model.forward.sharing import forest_to_pack, packing_support, plan_microbatches


def rows(groups, prompt, completion, seed=0):
    """``groups`` is a list of group sizes."""
    numbers = random.Random(seed)
    prompts, completions = [], []
    for size in groups:
        ids = [numbers.randrange(3, 48) for _ in range(prompt)]
        prompts += [ids] * size
        completions += [[4] * completion for _ in range(size)]
    return prompts, completions


def packs(*arguments):
    return forest_to_pack(*arguments) is not None


LONG_GROUP = rows([16], 40, 5)
SINGLES = rows([1] * 8, 10, 5)


def wide(make_model, family="llama", **changes):
    return make_model(family, hidden_size=128, intermediate_size=256, **changes)


def test_auto_shares_what_is_cheaper_shared_and_always_and_never_are_obeyed(make_model):
    model = wide(make_model)
    assert packs(model, *LONG_GROUP, "auto")
    assert not packs(model, *SINGLES, "auto")
    assert packs(model, *SINGLES, "always")
    assert not packs(model, *LONG_GROUP, "never")
    assert not packs(model, [], [], "always")
    assert plan_microbatches(model, [], [], token_budget=9, sharing="auto") == []
    prompts, completions = rows([1] * 8, 5, 4)
    prompts[0] = [7] * 300  # padding would cost more
    assert packs(model, prompts, completions, "auto")


@pytest.mark.parametrize(("groups", "shares"), [([16], False), ([16] * 6, True), ([2] * 90, True)])
def test_on_a_gpu_a_level_of_stems_costs_the_same_for_any_number_of_them(
    make_model, monkeypatch, groups, shares
):
    # Of 2 layers 2e9 operations, as many as of about 3,000 tokens; sharing saves 600 or 3,600.
    monkeypatch.setattr(sharing, "packing_support", lambda *_: sharing.Support(None, math.inf))
    prompts, _ = rows(groups, 40, 5)
    completions = [[3 + row % 45] * 5 for row in range(len(prompts))]
    model = wide(make_model)
    assert packs(model, prompts, completions, "auto")
    with CountingDevice() as device:
        assert packs(device.move(model), prompts, completions, "auto") == shares


def test_a_model_that_cannot_share_falls_back_or_says_why(make_model):
    model = make_model("bloom", hidden_size=128)
    assert not packs(model, *LONG_GROUP, "auto")
    with pytest.raises(ModelError, match=r"takes no position_ids; set train.shared_prompts"):
        packs(model, *LONG_GROUP, "always")


def test_rows_longer_than_a_window_fall_back_and_it_is_logged_once(make_model, caplog):
    model = wide(make_model, "mistral_window", sliding_window=30)
    short = rows([16], 20, 5)
    with caplog.at_level(logging.WARNING, logger="dph"):
        assert packs(model, *short, "auto")
        assert not packs(model, *LONG_GROUP, "auto")
        assert not packs(model, *LONG_GROUP, "auto")
    assert [r.message for r in caplog.records] == [
        "MistralForCausalLM: prompts are not always shared: "
        "a row has 45 tokens, a layer attends to the last 30"
    ]
    with pytest.raises(ModelError, match="a row has 45 tokens"):
        packs(model, *LONG_GROUP, "always")


@pytest.mark.parametrize("sharing", ["auto", "always", "never"])
@pytest.mark.parametrize("budget", [1, 60, 10_000])
def test_a_plan_has_every_row_once(make_model, sharing, budget):
    prompts, completions = rows([4, 3, 1, 1], 12, 5)
    plan = plan_microbatches(
        wide(make_model), prompts, completions, token_budget=budget, sharing=sharing
    )
    assert sorted(row for batch in plan for row in batch.rows) == list(range(9))
    assert {batch.sharing for batch in plan} == {"always" if plan[0].packed else "never"}
    assert sharing == "auto" or all(batch.sharing == sharing for batch in plan)


def test_a_planned_forward_builds_one_tree_for_the_plan_and_one_for_each_micro_batch(
    make_model, monkeypatch
):
    model = wide(make_model)
    prompts, completions = rows([8, 8, 8, 8], 30, 6)
    packing_support(model)  # probes the model once with rows of its own
    built = []
    build = packing.prefix_forest

    def counted(rows, **options):
        built.append(len(rows))
        return build(rows, **options)

    for module in (sharing, packing):
        monkeypatch.setattr(module, "prefix_forest", counted)
    plan = plan_microbatches(model, prompts, completions, token_budget=100, sharing="auto")
    assert len(plan) == 2
    for batch in plan:
        completion_scores(
            model,
            [prompts[row] for row in batch.rows],
            [completions[row] for row in batch.rows],
            temperature=1.0,
            pad_id=0,
            sharing=batch.sharing,
            forest=batch.forest,
        )
    assert built == [32, 16, 16]
    built.clear()
    completion_scores(model, prompts, completions, temperature=1.0, pad_id=0)
    assert built == [32]

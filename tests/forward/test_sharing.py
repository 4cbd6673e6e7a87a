import logging
import random

import pytest

from dph.errors import ModelError
from dph.forward.sharing import packs, plan_microbatches


def rows(groups, prompt, completion, seed=0):
    """``groups`` is a list of group sizes."""
    numbers = random.Random(seed)
    prompts, completions = [], []
    for size in groups:
        ids = [numbers.randrange(3, 48) for _ in range(prompt)]
        prompts += [ids] * size
        completions += [[4] * completion for _ in range(size)]
    return prompts, completions


LONG_GROUP = rows([16], 40, 5)
SINGLES = rows([1] * 8, 10, 5)


def wide(make_model, family="llama", **changes):
    return make_model(family, hidden_size=128, intermediate_size=256, **changes)


def test_auto_shares_what_is_cheaper_shared(make_model):
    model = wide(make_model)
    assert packs(model, *LONG_GROUP, "auto")
    assert not packs(model, *SINGLES, "auto")


def test_auto_shares_singles_where_padding_would_cost_more(make_model):
    prompts, completions = rows([1] * 8, 5, 4)
    prompts[0] = [7] * 300
    assert packs(wide(make_model), prompts, completions, "auto")


def test_always_and_never_are_obeyed(make_model):
    model = wide(make_model)
    assert packs(model, *SINGLES, "always")
    assert not packs(model, *LONG_GROUP, "never")


def test_no_rows_are_not_shared(make_model):
    assert not packs(make_model(), [], [], "always")


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


def test_a_plan_of_no_rows_is_empty(make_model):
    assert plan_microbatches(make_model(), [], [], token_budget=9, sharing="auto") == []

"""Anchors on stored next-token distributions in TRL: the gradient, the store, what is refused."""

import json

import pytest
import torch

from dph.errors import PoolError, SettingsError
from dph.runs.presample.stores.store import load_store
from dph.runs.train.rows import Drawing, prompts_of_step
from engines.trl.by_hand import (
    Step,
    logprobs_over_vocabulary,
    policy_term,
    record,
    relative_error,
)
from engines.trl.processes import run_two_processes
from engines.trl.small import TEMPERATURE, make_config, make_small_model, make_trainer
from small_stores import bucket_kl_by_hand, prompts_in, write_store_of

EXACT = 1e-5  # a float32 forward against float64
WEIGHT = 0.15


@pytest.fixture
def store(tmp_path):
    """A store of the small world's model."""
    return write_store_of(make_small_model(), tmp_path / "store", temperature=TEMPERATURE)


def broad(**changes):
    anchor = {"divergence": "distribution_kl", "samples": "store:mine", "weight": WEIGHT}
    anchor |= {"per_step": 7, "whole_prompts": True}
    return {"anchors": {"broad": {**anchor, **changes}}}


def config(directory, store, *, objective=None, tilt=4.0, **changes):
    values = {"eta": None, "pool": "", "stores": {"mine": {"place": str(store), "tilt": tilt}}}
    return make_config(
        directory, objective=broad() if objective is None else objective, **{**values, **changes}
    )


def counts(table, sample, floor):
    """Whether the answer has fallen below ``floor`` times what it once was; all do at floor 0."""
    now = table[range(len(table)), sample.completion_ids].sum().exp()
    once = torch.tensor(sample.ref_logprobs, dtype=torch.float64).sum().exp()
    return not floor or bool(now < floor * once)


def by_hand(step, samples, *, weight=WEIGHT, floor=0.0):
    """d/dw of GRPO's mean over new tokens + weight * mean KL(q || pi) over the stored ones."""
    model = make_small_model()
    model.load_state_dict(step.weights, strict=False)
    model = model.double()
    loss = policy_term(model, step.batches, TEMPERATURE)
    tokens = sum(len(sample.completion_ids) for sample in samples)
    for sample in samples:
        table = logprobs_over_vocabulary(
            model, sample.prompt_ids, sample.completion_ids, TEMPERATURE
        )
        if not counts(table, sample, floor):
            continue
        loss = loss + weight * bucket_kl_by_hand(table, sample) / tokens
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


def counted(step, samples, floor):
    """How many answers count under the weights of a step."""
    model = make_small_model()
    model.load_state_dict(step.weights, strict=False)
    tables = [
        logprobs_over_vocabulary(model, s.prompt_ids, s.completion_ids, TEMPERATURE)
        for s in samples
    ]
    return sum(counts(t, s, floor) for t, s in zip(tables, samples, strict=True))


@pytest.mark.parametrize("accumulation", [1, 2, 4])
@pytest.mark.parametrize("floor", [0.0, 0.98])
def test_the_gradient_is_that_of_grpo_and_the_kl_by_hand(tmp_path, store, accumulation, floor):
    args = config(
        tmp_path,
        store,
        objective=broad(floor=floor),
        per_device_train_batch_size=16 // accumulation,
        gradient_accumulation_steps=accumulation,
    )
    steps = record(make_trainer(args))
    stored = load_store(store, tilt=4.0)
    errors = []
    for step in steps:
        drawn = prompts_of_step(stored, 7, step.number + 1, seed=42)
        assert set(prompts_in(drawn).values()) == {3}
        assert len(drawn) == 9
        errors.append(relative_error(step.gradient, by_hand(step, drawn, floor=floor)))
    assert len(errors) == 3
    assert max(errors) < EXACT
    assert counted(steps[-1], drawn, floor) in ((9,) if floor == 0 else range(1, 9))
    # And the term is there to be seen: without it the last gradient would be another one.
    assert relative_error(steps[-1].gradient, by_hand(steps[-1], drawn, weight=0.0)) > 1e-2


def test_two_processes_take_the_gradient_of_all_stored_rows(tmp_path, store):
    changes = {"objective": broad(), "stores": {"mine": {"place": str(store), "tilt": 4.0}}}
    run_two_processes("ddp_run.py", tmp_path, 2, json.dumps({**changes, "eta": None, "pool": ""}))
    ranks = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]
    stored = load_store(store, tilt=4.0)
    for first, second in zip(*ranks, strict=True):
        step = Step(**{**first, "batches": first["batches"] + second["batches"]})
        drawn = prompts_of_step(stored, 7, step.number + 1, seed=42)
        assert relative_error(step.gradient, by_hand(step, drawn)) < EXACT


def test_the_tilt_is_what_moves_an_untrained_policy(tmp_path, store):
    first = {}
    for tilt in (0.0, 4.0):
        trainer = make_trainer(config(tmp_path, store, tilt=tilt, max_steps=1))
        trainer.train()
        first[tilt] = next(
            row["broad/loss"] for row in trainer.state.log_history if "broad/loss" in row
        )
    assert first[0.0] == pytest.approx(0.0, abs=1e-5)  # what float16 rounds away
    assert first[4.0] > 0.01


def test_the_method_dph_broad_runs_with_the_tilt_of_its_recipe(tmp_path):
    store = write_store_of(make_small_model(), tmp_path / "store", temperature=TEMPERATURE)
    args = config(
        tmp_path, store, stores={"broad": str(store)}, max_steps=2, method="dph_broad", objective={}
    )
    said = {"tilt": 4.0, "values": "distinct", "targets": "distributions"}
    assert args.stores == {"broad": {"place": str(store), **said}}
    assert (args.epsilon, args.epsilon_high) == (0.2, 0.28)
    trainer = make_trainer(args)
    (anchor,) = trainer.anchors
    assert (anchor.weight, anchor.drawing) == (0.15, Drawing(count=96, whole_prompts=True))
    assert len(anchor.store.samples) == 24
    trainer.train()
    tokens = [row["broad/tokens"] for row in trainer.state.log_history if "broad/tokens" in row]
    assert tokens == [sum(len(s.completion_ids) for s in anchor.store.samples)] * 2


def test_answers_that_most_agree_with_are_learnt_by_their_likelihood(tmp_path, store):
    voted = {"place": str(store), "tilt": 0.0, "values": "majority", "targets": "answers"}
    args = config(tmp_path, store, objective=broad(), stores={"mine": voted}, max_steps=2)
    trainer = make_trainer(args)
    (anchor,) = trainer.anchors
    whole, chosen = load_store(store), load_store(store, values="majority", targets="answers")
    assert anchor.store.samples == chosen
    assert 0 < len(chosen) < len(whole)
    trainer.train()
    losses = [row["broad/loss"] for row in trainer.state.log_history if "broad/loss" in row]
    assert len(losses) == 2
    assert min(losses) > 0.1  # nats a token, where a KL from the policy itself would be 0


def test_a_recipe_brings_the_tilt_of_its_stores_and_their_place(tmp_path, store):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
        method = "dph_broad"
        model.path = "model"
        data.train = "train.jsonl"
        [stores.broad]
        file = "unlabelled.jsonl"
        place = {json.dumps(str(store))}
        tilt = 2.5
        """
    )
    found = config(tmp_path, store, objective=str(recipe), stores=None).stores
    said = {"tilt": 2.5, "values": "distinct", "targets": "distributions"}
    assert found["broad"] == {"place": str(store), **said}
    text = json.dumps({"broad": {"tilt": 1.0}})
    again = config(tmp_path, store, objective=str(recipe), stores=text)
    assert again.stores["broad"] == {**found["broad"], "tilt": 1.0}
    assert json.loads(again.to_json_string())["stores"] == again.stores


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stores": None}, r"anchors.broad.samples = 'store:mine' needs stores.mine"),
        ({"stores": {"mine": {"tilt": 1.0}}}, r"'store:mine' needs stores.mine: the directory"),
        ({"stores": {"mine": "s", "other": "s"}}, r"stores.other: no anchor reads it.*: mine"),
        ({"stores": {"mine": 3}}, r"stores.mine must be a directory, or a table .*, got 3"),
        ({"stores": [1]}, r"stores must be a table of stores by name, got \[1\]"),
        ({"stores": "mine"}, r"stores is not JSON.*'mine'"),
        ({"stores": {"mine": {"place": "s", "tilt": -1.0}}}, r"stores.mine: tilt.*-1"),
        ({"stores": {"mine": {"place": "s", "tlt": 1.0}}}, r"stores.mine: tlt"),
        (
            {"objective": broad(target=0.1)},
            r"anchors.broad.target: it adapts a weight.*; `dph train` can",
        ),
    ],
)
def test_what_is_wrong_with_a_store_is_said_by_name(tmp_path, store, changes, message):
    with pytest.raises(SettingsError, match=message):
        config(tmp_path, store, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.8}, "temperature was 0.8"),
        ({"tokenizer_fingerprint": "another"}, "tokenizer fingerprint was"),
        ({"dtype": "bfloat16"}, "dtype was"),
        ({"model_fingerprint": "another"}, "model fingerprint was"),
    ],
)
def test_a_store_of_another_policy_is_refused(tmp_path, changes, message):
    store = write_store_of(make_small_model(), tmp_path / "store", **changes)
    with pytest.raises(PoolError, match=message):
        make_trainer(config(tmp_path, store))


def test_a_store_whose_log_probs_are_not_the_policys_is_refused_when_training_starts(tmp_path):
    mine = make_small_model()
    other = write_store_of(make_small_model(seed=3), tmp_path / "other", temperature=TEMPERATURE)
    manifest = json.loads((other / "manifest.json").read_text())
    truth = write_store_of(mine, tmp_path / "store", temperature=TEMPERATURE)
    manifest["source"] = json.loads((truth / "manifest.json").read_text())["source"]
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(PoolError, match="the stored log-probs are not this policy's"):
        make_trainer(config(tmp_path, other)).train()


def test_a_pool_is_no_store_of_distributions(directory):
    with pytest.raises(PoolError, match="is a pool, not a store"):
        make_trainer(config(directory, directory / "pool"))

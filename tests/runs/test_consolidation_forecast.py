"""The forecast of a consolidation of a planted model, whose numbers can be counted by hand.

It goes on from the last token alone: from a letter of a prompt with ``say`` (0.55), its likeliest
answer and always the same text, or with one or more ``a`` (0.45). So the greedy answer is never
right, most answers say little, and most texts are right where ``a`` is: on every fourth problem.
"""

import math

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dph.errors import DataError
from dph.runs import consolidation
from dph.runs.consolidation import SmallConsolidation, forecast_stage, planned_cost
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.run import consolidation_recipe
from dph.runs.store_stage import store_stage
from dph.runs.train.preparation import Trained
from dph.tasks.problems import save_problems
from runs.test_broad import UNLABELLED

NEXT = {
    **{letter: {"say": 0.55, "a": 0.45} for letter in "bcdef"},
    "a": {"a": 0.5, "<eos>": 0.5},
    "say": {"<eos>": 1.0},
    "<eos>": {"<eos>": 1.0},
    "<pad>": {"<eos>": 1.0},
}
"""The next token's probabilities, by the last token."""
HIDDEN = 16


@pytest.fixture
def planted(tokenizer, tmp_path):
    """The model on disk: one-hot embeddings, layers that add nothing, and a table as its head."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    model, place = LlamaForCausalLM(config), tmp_path / "planted"
    with torch.no_grad():
        layer = model.model.layers[0]
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(tokenizer), HIDDEN))
        model.lm_head.weight.fill_(-30 / math.sqrt(HIDDEN))  # the norm makes a one sqrt(HIDDEN)
        for last, following in NEXT.items():
            for token, share in following.items():
                at = tokenizer.convert_tokens_to_ids([token, last])
                model.lm_head.weight[at[0], at[1]] = math.log(share) / math.sqrt(HIDDEN)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture
def open_it(make_recipe, planted, tmp_path):
    """The plan of its consolidation, inside a ``with``."""

    def make(values="distinct", place="after", **settings):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        after = {"file": str(tmp_path / "unlabelled.jsonl"), "answers": 16, "tilt": 4.0}
        after |= {"agreement": "own_agreement:first_letter", "values": values}
        recipe = make_recipe(
            "grpo",
            stores={"after": after},
            consolidation={"updates": 6, "samples": "store:after", "rows": 32},
            **settings,
        )
        follows = consolidation_recipe(recipe, planted)
        return open_plan(follows, tmp_path / place, all_sets=True)

    return make


def test_the_numbers_are_those_of_the_planted_model(open_it):
    with open_it() as opened:
        found = forecast_stage(opened, Silent(), prompts=100)
    labelled = found["labelled"]
    assert (labelled["where"], labelled["prompts"]) == ("training problems", 18)  # of 24, 6 tests
    exact = 1 - 0.025 ** (1 / 18)  # of 18 zeros, after Clopper and Pearson
    assert labelled["greedy"] == {"mean": 0.0, "lo": 0.0, "hi": pytest.approx(exact)}
    texts = labelled["texts"]
    assert texts["share"]["mean"] == 1.0
    assert texts["accuracy"]["mean"] == pytest.approx(4 / 18)  # problems 8, 12, 16 and 20
    assert texts["difference"]["mean"] == pytest.approx(4 / 18)
    assert texts["difference"]["lo"] > 0
    assert found["verdict"] == "above greedy"
    # A share of 0.45 is the larger one of 16 at times: the same answers, counted otherwise.
    assert labelled["answers"]["share"]["mean"] == 1.0
    assert labelled["answers"]["accuracy"]["mean"] < 4 / 18
    assert found["unlabelled"]["share"]["texts"]["mean"] == 1.0


def test_what_it_expects_of_all_prompts_is_what_the_store_then_holds(open_it):
    with open_it() as opened:
        found = forecast_stage(opened, Silent(), prompts=100)
        counts = store_stage(opened, Silent())["after"].counts
    planned, spent = found["planned"], found["spent"]
    # All 12 prompts were tried, with the answers that they have in the store.
    assert (planned["answers"], planned["tokens"]) == (12 * 16, counts.tokens)
    assert found["unlabelled"]["share"]["answers"]["mean"] == counts.prompts_that_agree
    assert spent["answers"] == 18 * (16 + 1) + 12 * 16 + 16
    assert planned["updates"] == 6
    seconds = planned["store_seconds"] + 6 * planned["seconds_per_update"]
    assert planned["minutes"] == pytest.approx(seconds / 60)
    small = SmallConsolidation(
        groups=(),
        answers=12 * 16,
        tokens=counts.tokens,
        untimed=(16, 0),
        store_seconds=planned["store_seconds"],
        update_seconds=planned["seconds_per_update"],
    )
    again = planned_cost(small, prompts=12, answers=16, updates=6, rows=32)
    assert again.minutes == pytest.approx(planned["minutes"])
    assert again.tokens_per_second == pytest.approx(planned["tokens_per_second"])


def test_nearly_without_chance_agreement_is_the_greedy_answer_and_one_text(open_it):
    for values, verdict in (("agreement", "not above greedy"), ("distinct", "one text a result")):
        with open_it(values, values, sampling={"temperature": 0.01}) as opened:
            found = forecast_stage(opened, Silent(), prompts=8)
        assert found["labelled"]["answers"]["share"]["mean"] == 1.0
        assert found["labelled"]["answers"]["difference"] == {"mean": 0.0, "lo": 0.0, "hi": 0.0}
        assert found["labelled"]["texts"]["share"]["mean"] == 0.0
        assert found["verdict"] == verdict


def test_it_is_kept_for_the_same_and_made_anew_for_another(open_it, tmp_path):
    with open_it() as opened:
        one = forecast_stage(opened, Silent(), prompts=4)
        (tmp_path / "after" / "forecast.partial").mkdir()  # as a kill leaves it
        assert forecast_stage(opened, Silent(), prompts=4) == one
        other = forecast_stage(opened, Silent(), prompts=5)
    assert (one["labelled"]["prompts"], other["labelled"]["prompts"]) == (4, 5)
    left = {path.name for path in (tmp_path / "after").iterdir()}
    assert left == {"forecast.json", ".lock"}


def test_nothing_of_it_goes_to_trackers_and_an_interruption_ends_it(open_it, tmp_path, monkeypatch):
    seen = []

    def interrupted(own, _progress):
        seen.append(own.recipe.track.to)
        return Trained(checkpoint=own.directory.path, step=1, stopped=True)

    monkeypatch.setattr(consolidation, "train_stage", interrupted)
    with open_it(track={"to": ["wandb"]}) as opened, pytest.raises(KeyboardInterrupt):
        forecast_stage(opened, Silent(), prompts=2)
    assert seen == [()]
    assert not (tmp_path / "after" / "forecast.json").exists()


CRASHING = "runs.test_consolidation_forecast:crash"


def test_problems_that_nobody_can_grade_forecast_nothing(open_it):
    with (
        open_it(data={"verifier": CRASHING, "verifier_crash_limit": 1.0}) as opened,
        pytest.raises(DataError, match="none of the 4 training problems could be graded"),
    ):
        forecast_stage(opened, Silent(), prompts=4)


def crash(response, problem):
    raise RuntimeError(f"{response} {problem}")

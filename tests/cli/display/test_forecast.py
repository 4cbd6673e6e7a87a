"""The words of a forecast."""

from pathlib import Path

import pytest

from dph.cli.display.forecast import forecast_text
from dph.runs.evaluate.consensus import Worth


def interval(mean, lo, hi):
    return {"mean": mean, "lo": lo, "hi": hi}


HALF = interval(0.5, 0.36, 0.64)
AGREEING = {
    "share": interval(0.8, 0.68, 0.9),
    "prompts": 40,
    "accuracy": interval(0.75, 0.6, 0.88),
    "greedy": HALF,
    "difference": interval(0.25, 0.1, 0.4),
}
SILENT = {
    "share": interval(0.0, 0.0, 0.0),
    "prompts": 0,
    "accuracy": None,
    "greedy": None,
    "difference": None,
}


def forecast(verdict, *, counted="texts", texts=AGREEING):
    return {
        "store": "stores.after",
        "counted": counted,
        "verdict": verdict,
        "labelled": {
            "where": "training problems",
            "prompts": 50,
            "greedy": HALF,
            "sampled": HALF,
            "answers": AGREEING,
            "texts": texts,
        },
        "unlabelled": {"prompts": 50, "share": {"answers": HALF, "texts": texts["share"]}},
        "planned": {
            "prompts": 1200,
            "answers": 19200,
            "tokens": 960000,
            "tokens_per_second": 4000.0,
            "store_seconds": 240.0,
            "updates": 200,
            "seconds_per_update": 1.5,
            "minutes": 9.0,
        },
        "spent": {"answers": 1666, "tokens": 80000, "seconds": 45.0},
    }


def text(*arguments, **settings):
    return forecast_text(forecast(*arguments, **settings), Path("some/prompts.jsonl"))


def test_it_has_accuracies_shares_and_what_is_to_come():
    said = text("above greedy")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "a consensus of most answers most texts (the store)" in lines
    assert "labelled prompts with one 80.0 [68.0, 90.0] 80.0 [68.0, 90.0]" in lines
    assert "prompts of prompts.jsonl with one 50.0 [36.0, 64.0] 80.0 [68.0, 90.0]" in lines
    assert "consensus is right 75.0 [60.0, 88.0] 75.0 [60.0, 88.0]" in lines
    assert "greedy is right on the same 50.0 [36.0, 64.0] 50.0 [36.0, 64.0]" in lines
    assert "difference in points +25.0 [+10.0, +40.0] +25.0 [+10.0, +40.0]" in lines
    assert "50 training problems, none of an evaluation set" in said
    assert "19,200 answers to 1,200 prompts, about 960,000 tokens at 4,000 a second" in said
    assert "200 updates of 1.5 s: about 9 min 0 s (4 min 0 s and 5 min 0 s)" in said
    assert "the forecast drew 1,666 answers in 45.0 s" in said


@pytest.mark.parametrize(
    ("verdict", "more", "said"),
    [
        (
            Worth.ABOVE,
            {},
            "agreement carries more information than the greedy answer: +25.0 [+10.0, +40.0]",
        ),
        (
            Worth.NOT_ABOVE,
            {},
            "is shown: +25.0 [+10.0, +40.0] points on 40 labelled prompts. RL has seen these",
        ),
        (
            Worth.NOT_ABOVE,
            {"texts": SILENT},
            "is shown, as no labelled prompt has a consensus. RL has seen",
        ),
        (Worth.ONE_TEXT, {"texts": SILENT}, "--set stores.after.values=agreement"),
        (Worth.NONE, {"texts": SILENT}, "--set stores.after.answers=N"),
    ],
)
def test_it_says_what_agreement_is_worth_and_what_to_do(verdict, more, said):
    assert said in " ".join(text(verdict.value, **more).split())


def test_held_out_prompts_that_show_nothing_are_believed():
    found = forecast(Worth.NOT_ABOVE.value)
    found["labelled"]["where"] = "problems of held-out.jsonl"
    said = " ".join(forecast_text(found, Path("some/prompts.jsonl")).split())
    assert "a model becomes surer, not more often right" in said
    assert "RL has seen" not in said

"""The training forward on a counting device: it never waits, and launches do not grow with rows."""

import math

import pytest
import torch

from counting_device import CountingDevice
from dph.model.forward import logprobs, sharing
from dph.model.forward.logprobs import RowStatistic, completion_scores, layout_of
from dph.model.forward.over_vocabulary import plain_head
from scored_completions import score_completions

SETTINGS = {"temperature": 0.7, "pad_id": 0, "sharing": "always"}


@pytest.fixture(autouse=True)
def _supported(monkeypatch):
    """What a model and its head can is asked once a run, and waits."""
    support = sharing.Support(refusal=None, window=math.inf)
    monkeypatch.setattr(sharing, "packing_support", lambda *_: support)


def rows(samples):
    prompts = [[5 + prompt] * 30 for prompt in range(2) for _ in range(samples)]
    completions = [[4 + row % 40, *[9] * (2 + row % 5)] for row in range(2 * samples)]
    return prompts, completions


def statistics(completions):
    """Of half of the rows two log-probs, of a quarter the entropy."""
    row = torch.arange(len(completions))
    return [
        RowStatistic(row % 2 == 0, lambda table, _: table[:, :2]),
        RowStatistic(row % 4 == 1, lambda table, _: -(table.exp() * table).sum(1, keepdim=True)),
    ]


def written(completions):
    flags = [[place % 2 == 0 for place in range(len(ids))] for ids in completions]
    return [None if row % 3 else flags[row] for row in range(len(flags))]


OPTIONS = {
    "plain": lambda _: {},
    "statistics": lambda completions: {"statistics": statistics(completions)},
    "written": lambda completions: {"written": written(completions)},
}


def launched(model, rows, options):
    """Kernels of the scores and of their gradient; neither waits."""
    with CountingDevice() as device:
        device.move(model)
        plain_head(model)
        with torch.autocast("cuda", dtype=torch.bfloat16), device.counting("scores") as forward:
            scores = completion_scores(model, *rows, **SETTINGS, **options)
        values = [device.numbers(x.detach()) for x in (scores.logprobs, *scores.statistics)]
        total = sum(x.sum() for x in (scores.logprobs, *scores.statistics))
        with device.counting("gradient") as backward:
            torch.autograd.backward(total)
    assert (forward.waits, backward.waits) == (0, 0)
    return values, (forward.launches, backward.launches)


@pytest.mark.parametrize("at_once", [2**24, 0])
@pytest.mark.parametrize("options", OPTIONS)
def test_scores_wait_for_nothing_and_launch_as_much_for_few_rows_as_for_many(
    make_model, monkeypatch, options, at_once
):
    monkeypatch.setattr(logprobs, "_LOGITS_AT_ONCE", at_once)
    counts = set()
    for samples in (2, 12):
        some = rows(samples)
        chosen = OPTIONS[options](some[1])
        model = make_model("llama_gqa", initializer_range=0.1)
        expected = completion_scores(model, *some, **SETTINGS, **chosen)
        values, found = launched(model, some, chosen)
        counts.add(found)
        for ours, theirs in zip(values, (expected.logprobs, *expected.statistics), strict=True):
            torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=0.1)
    assert len(counts) == 1


@pytest.mark.parametrize("sharing", ["always", "never"])
def test_a_layout_is_one_copy(make_model, sharing):
    prompts, completions = rows(3)
    with CountingDevice() as device:
        model = device.move(make_model("llama_gqa"))
        options = {"pad_id": 0, "sharing": sharing}
        with device.counting("layout") as counts:
            layout = layout_of(model, prompts, completions, written=written(completions), **options)
        assert counts.by_operation() == {"copy from host": 1}
        assert counts.waits == 0
        assert device.numbers(layout.mask).sum(1).tolist() == list(layout.lengths)


def test_given_answers_are_read_once_a_microbatch(make_model):
    prompts, completions = rows(6)
    options = {"temperature": 1.0, "pad_id": 0, "sharing": "always", "token_budget": 60}
    options |= {"written": written(completions)}
    model = make_model("llama_gqa")
    expected = score_completions(model, prompts, completions, dtype="float32", **options)
    with CountingDevice() as device:
        device.move(model)
        plain_head(model)
        with device.counting("scored") as counts:
            found = score_completions(model, prompts, completions, dtype="float32", **options)
    assert counts.by_operation("waited") == {"copy to host": 2}
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)

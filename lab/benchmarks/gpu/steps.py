"""Our side of a shape: a token in the middle of its rollout, a micro-batch, whole steps."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from dph.model.loading import autocast, evaluating
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.rows_in_place import CapturedSteps, RowsInPlace
from dph.model.sampler.torch.waves import Room, Waiting, capacity_of, room_in_memory
from dph.runs.train.rows import Minibatch, PolicyRow
from lab.benchmarks.gpu.check import Check
from lab.benchmarks.gpu.places import Fit, Place, useful_flops
from lab.benchmarks.gpu.rates import peak_flops
from lab.benchmarks.speed.flops import Group
from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.runs import Row
from lab.benchmarks.speed.world import World

Groups = Sequence[tuple[tuple[int, ...], Sequence[tuple[int, ...]]]]
"""Prompts with their completions."""
STEPS = 8
"""Decoded tokens of a measurement."""


def given_groups(place: Place, count: int | None = None, *, seed: int = 0) -> Groups:
    """Groups of random tokens, all or the first ``count`` of them, of a family one by one.

    Lengths are even around the mean where the shape has one.
    """
    drawn, shape = random.Random(seed), place.shape

    def words(length: int) -> tuple[int, ...]:
        return tuple(drawn.randrange(2, place.size.vocabulary) for _ in range(length))

    shared = [words(shape.schema) for _ in range(shape.schemas)] or [()]
    per_family = -(-shape.prompts // len(shared))
    found = []
    for number in range(shape.prompts if count is None else min(count, shape.prompts)):
        begun = shared[number // per_family]
        prompt = (*begun, *words(shape.prompt - len(begun)))
        least = shape.completion if shape.mean is None else max(1, _least(place))
        lengths = [drawn.randint(least, shape.completion) for _ in range(shape.samples)]
        found.append((prompt, [words(length) for length in lengths]))
    return found


def _least(place: Place) -> int:
    assert place.shape.mean is not None
    return int(2 * place.shape.mean) - place.shape.completion


def minibatch_of(groups: Groups, vocabulary: int) -> Minibatch:
    """Those answers with advantages, as if a policy that knows nothing had drawn them."""
    unknown = -float(torch.tensor(float(vocabulary)).log())
    rows = [
        tuple(
            PolicyRow(
                prompt_ids=prompt,
                completion_ids=completion,
                advantage=(-1.0) ** number,
                old_logprobs=(unknown,) * len(completion),
            )
            for number, completion in enumerate(completions)
        )
        for prompt, completions in groups
    ]
    return Minibatch(groups=tuple(rows), stored={})


class Size(NamedTuple):
    """What a mini-batch holds: tokens of all rows, and the groups as `useful_flops` takes them."""

    tokens: int
    groups: list[Group]


def size_of(minibatch: Minibatch) -> Size:
    """The size of a mini-batch."""
    groups = [
        Group(len(rows[0].prompt_ids), tuple(len(row.completion_ids) for row in rows))
        for rows in minibatch.groups
    ]
    tokens = sum(sum(g.completions) + len(g.completions) * g.prompt for g in groups)
    return Size(tokens, groups)


# A token.


def middle_token(check: Check, row: Row, place: Place, model: PreTrainedModel) -> float | None:
    """Seconds of a token of all rows, half of the rollout behind them."""
    if not check.cuda:
        print(f"{row['case']}: a token in one launch needs CUDA: not measured")
        return None
    found: list[float | None] = [None]
    with (
        check.guarded(row, "token"),
        evaluating(model),
        torch.no_grad(),
        autocast(model, "bfloat16"),
    ):
        check.require()
        rows, steps = _in_the_middle(place, model)

        def decode() -> None:
            for _ in range(STEPS):
                steps.run(rows)

        for _ in range(2):  # as it is, captured
            steps.run(rows)
        if steps.refusal is not None:
            check.note(row, one_launch_a_token=False, refusal=steps.refusal)
        found[0] = check.measure(row, "token", decode, warm_up=0, per=STEPS)
    return found[0]


def _in_the_middle(place: Place, model: PreTrainedModel) -> tuple[RowsInPlace, CapturedSteps]:
    """All rows, or as many as fit, after half of their tokens. No token ends a row."""
    shape = place.shape
    parameters = SamplingParameters(max_tokens=shape.completion, stop_token_ids=())
    prompts = [
        prompt for prompt, _ in given_groups(replace(place, shape=replace(shape, mean=None)))
    ]
    requests = [
        SampleRequest(problem_id=str(number), prompt_ids=prompt, samples=shape.samples)
        for number, prompt in enumerate(prompts)
    ]
    room = room_in_memory(model, max_tokens=shape.completion, width=2)
    capacity = capacity_of(requests, room, max_tokens=shape.completion)
    limit = Room(rows=capacity.rows, tokens=capacity.prompt_tokens)
    waiting = Waiting(requests, limit=limit, max_tokens=shape.completion, packed=True)
    wave = waiting.next_wave(limit)
    assert wave is not None
    rows = RowsInPlace(model, parameters, capacity)
    rows.admit(wave, torch.rand(shape.completion, len(wave.rows), device=model.device).double())
    for layer in rows._layers.values():  # memory that nobody wrote may hold anything
        layer.keys.zero_()
        layer.values.zero_()
    rows.age.add_(shape.completion // 2 - STEPS // 2)
    return rows, CapturedSteps(None, on_refusal=lambda _: None)  # `refusal` says it


# A micro-batch, and whole steps.


def our_side(world: World, model: PreTrainedModel, fitted: Fit) -> Ours:
    """The package's own loop on these weights."""
    shape = world.shape  # a recipe has two answers to a prompt; where they are given, one is enough
    ours = Ours(replace(world, shape=replace(shape, samples=max(2, shape.samples))), model)
    ours.forward = replace(ours.forward, token_budget=fitted.tokens)
    return ours


def measure(check: Check, row: Row, place: Place, ours: Ours, fitted: Fit) -> None:
    """Fill our row: a token, a micro-batch, and whole steps where there is time for them."""
    token = None if place.scored else middle_token(check, row, place, ours.model)
    check.tidy()  # the rows and their graph
    update = _microbatch(check, row, place, ours, fitted)
    if place.scored or update is None:
        return
    expected = update + place.shape.completion * (token or 0.0)
    if place.whole:
        with check.guarded(row, "whole steps"):
            check.require(1.3 * expected)
            _whole_steps(check, row, place, ours, fitted, once=expected > 5)
    if "step_s" not in row and token is not None:
        sampling = token * place.shape.completion
        step = sampling + update
        check.note(row, sampling_s=sampling, update_s=update, step_s=step, extrapolated=True)


def _microbatch(check: Check, row: Row, place: Place, ours: Ours, fitted: Fit) -> float | None:
    """Seconds of a whole update, from those of one that fills a micro-batch."""
    count = groups_in(place, fitted.tokens)
    minibatch = minibatch_of(given_groups(place, count), place.size.vocabulary)
    check.begin_peak()
    seconds = check.measure(row, "micro", lambda: ours.learn(minibatch), repeats=2)
    if seconds is None:
        return None
    check.note(row, micro_groups=count, **_update_rates(check, place, size_of(minibatch), seconds))
    _note_peak(check, row, "update", fitted.estimate.training)
    return seconds * place.shape.prompts / count


def groups_in(place: Place, tokens: int) -> int:
    """Groups that a micro-batch of so many tokens holds, where what is alike counts once."""
    shape = place.shape
    own = shape.prompt - shape.schema + shape.samples * shape.completion
    return min(shape.prompts, max(1, (tokens - shape.schema) // own))


def _update_rates(check: Check, place: Place, size: Size, seconds: float) -> dict[str, float]:
    if seconds <= 0:
        return {}
    flops, most = useful_flops(place, size.groups, backward=True), seconds * peak_flops(check)
    found = {"update_tokens_per_s": size.tokens / seconds, "mfu": flops / most}
    if place.scored:  # others count a causal mask as if it were none
        again = sum((group.prompt + sum(group.completions)) ** 2 / 2 for group in size.groups)
        whole = flops + 12 * place.size.layers * place.size.heads * place.size.width * again
        found["mfu_whole_attention"] = whole / most
    return found


def _note_peak(check: Check, row: Row, what: str, estimated: float) -> None:
    peak = check.peak_gib()
    if peak is not None:
        check.note(row, **{f"{what}_peak_gib": peak, f"{what}_estimated_gib": estimated / 2**30})


def _whole_steps(
    check: Check, row: Row, place: Place, ours: Ours, fitted: Fit, *, once: bool
) -> None:
    """Rollouts and updates one after the other, on answers that were drawn."""
    kept: list[Minibatch] = []

    def roll_out() -> None:
        kept[:] = [ours.next_minibatch()]

    def learn() -> None:
        ours.learn(kept[0])

    _ask_what_it_can(ours, place)
    calls: tuple[tuple[str, Callable[[], None], float], ...] = (
        ("sampling", roll_out, fitted.estimate.sampling),
        ("update", learn, fitted.estimate.training),
    )
    for name, call, estimated in calls:
        check.begin_peak()
        # Thousands of replayed graphs are too many events to keep.
        traced = not once and (name == "update" or place.shape.completion <= 64)
        repeats, warm_up = (1, 0) if once else (3, 1)
        seconds = check.measure(row, name, call, repeats=repeats, warm_up=warm_up, traced=traced)
        if seconds is None:
            return
        _note_peak(check, row, name, estimated)
    size = size_of(kept[0])
    lengths = [n for group in size.groups for n in group.completions]
    step = row["sampling_s"] + row["update_s"]
    check.note(row, step_s=step, rows=len(lengths), mean_length=sum(lengths) / len(lengths))
    if step > 0:
        rates = _update_rates(check, place, size, row["update_s"])
        found = {"tokens_per_s": size.tokens / step, "answers_per_s": len(lengths) / step}
        check.note(row, **found, **rates)


def _ask_what_it_can(ours: Ours, place: Place) -> None:
    """Two tokens: the sampler finds out once in a run what the model can."""
    prompts = [prompt for prompt, _ in given_groups(place, 2)]
    requests = [
        SampleRequest(problem_id=str(number), prompt_ids=prompt, samples=2)
        for number, prompt in enumerate(prompts)
    ]
    few = SamplingParameters(max_tokens=2, stop_token_ids=ours.world.stop_tokens)
    ours.draw.sampler.sample(requests, few, seed=0)

"""Pre-sampling some problems, ours beside transformers' generate and a plain forward.

Ours ends with the pool on disk. The peer draws as many completions, grades them and scores the last
one of every problem; it writes nothing.
"""

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from dph.model.forward.scorer import AnswerScorer
from dph.model.loading import autocast
from dph.records import Problem
from dph.runs.presample.manifest import Rule, Source, ValueSource
from dph.runs.presample.presample import presample
from lab.benchmarks.speed.ours import make_draw, microbatch_tokens
from lab.benchmarks.speed.peer_generate import Generate
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import PRESAMPLING
from lab.benchmarks.speed.timing import interleaved
from lab.benchmarks.speed.world import (
    PAD,
    World,
    build_model,
    build_tokenizer,
    make_prompts,
    reward,
)

DECIDING = 8
"""Samples a problem that decide its side; one more is the final one."""


def measure(case: str, run: Run) -> list[Row]:
    """From problems to a pool."""
    world = run.world(PRESAMPLING[case])
    model = build_model(world).eval()
    with tempfile.TemporaryDirectory(prefix="dph-bench-") as scratch:
        sides = {"ours": _ours(world, model, Path(scratch)), "generate": _peer(world, model)}
        times = interleaved(sides, repeats=run.repeats)
    return [
        make_row(
            "presampling",
            case,
            run,
            shape=f"{world.shape} of 8 + 1",
            ours=times["ours"],
            peer="transformers generate and forward",
            peer_timing=times["generate"],
        )
    ]


def _ours(world: World, model: PreTrainedModel, scratch: Path) -> Callable[[], None]:
    prompts = make_prompts(world, world.shape.prompts)
    problems = [Problem(problem_id=str(i), prompt=p) for i, p in enumerate(prompts)]
    draw = make_draw(world, model)
    scorer = AnswerScorer(
        pad_id=PAD, temperature=1.0, token_budget=microbatch_tokens(world), dtype=world.dtype
    )
    reference = partial(scorer.logprobs, model)
    pool = scratch / "pool"

    def work() -> None:
        shutil.rmtree(pool, ignore_errors=True)
        presample(
            problems,
            pool,
            draw=draw,
            reference=reference,
            source=_source(world),
            grading=ValueSource(graded_by="even_words", graded_version="1"),
            rule=Rule(threshold=7, wrong_final="discard"),
        )

    return work


def _source(world: World) -> Source:
    return Source(
        model="random",
        model_fingerprint="",
        tokenizer_fingerprint="",
        prompts="train",
        prompts_fingerprint="",
        chat=False,
        system_prompt="",
        answers=DECIDING,
        temperature=1.0,
        top_p=1.0,
        max_tokens=world.shape.completion,
        stop_token_ids=world.stop_tokens,
        dtype=world.dtype,
        seed=0,
    )


def _peer(world: World, model: PreTrainedModel) -> Callable[[], None]:
    tokenizer = build_tokenizer(world.size)
    generate = Generate(world, model, tokenizer)
    prompts = make_prompts(world, world.shape.prompts)
    encoded = tokenizer(prompts)["input_ids"]
    repeated = [prompt for prompt in prompts for _ in range(DECIDING + 1)]

    def work() -> None:
        completions = generate(repeated)
        for text in tokenizer.batch_decode(completions, skip_special_tokens=True):
            reward(text)
        final = completions[DECIDING :: DECIDING + 1]
        rows = [p + c for p, c in zip(encoded, final, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device=world.device)
        with torch.no_grad(), autocast(model, world.dtype):
            # Padding is on the right, where no real token sees it.
            keep = width - world.shape.prompt + 1
            logits = model(input_ids=ids, logits_to_keep=keep).logits[:, :-1].float()
            torch.log_softmax(logits, -1).gather(-1, ids[:, -keep + 1 :, None])

    return work

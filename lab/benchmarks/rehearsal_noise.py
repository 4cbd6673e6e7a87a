"""How noisy the rehearsal gradient of a step is, by the way its stored answers are drawn.

    dph quickstart --out q --methods grpo,dph_f
    python -m lab.benchmarks.rehearsal_noise q --checkpoint q/dph_f/checkpoints/step_000040

The stored answers are the correct samples of the pool's near-perfect problems, several a problem.
Each has a gradient of the forward KL at the checkpoint; a step's is their sum over its tokens. For
every way of drawing (`WAYS`) 1,000 steps are drawn, and one JSON line says how far their gradients
are from that of all stored answers: the mean of |g - mean|^2 over that of drawing rows (1: as
noisy), the tokens that a step computes, and the product of both over that of drawing rows (below 1:
less noise at the same cost).
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.loss.objectives import make_objective
from dph.model.forward.logprobs import completion_scores, score_completions
from dph.model.forward.prefix_tree import fed, prefix_forest, tokens_of
from dph.model.loading import load_model
from dph.recipe import ObjectiveSettings
from dph.runs.presample.pool import load_pool
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import Drawing, stored_of_step

STEPS = 1000
WAYS: dict[str, tuple[int, Drawing]] = {
    "rows": (1, Drawing(count=32)),
    "rows, half as many": (1, Drawing(count=16)),
    "2 a prompt": (2, Drawing(count=32, whole_prompts=True)),
    "4 a prompt": (4, Drawing(count=32, whole_prompts=True)),
    "8 a prompt": (8, Drawing(count=32, whole_prompts=True)),
    "8 a prompt, half as many": (8, Drawing(count=16, whole_prompts=True)),
    "schema": (1, Drawing(count=32, whole_schemas=True)),
    "schema, 8 a prompt": (8, Drawing(count=32, whole_schemas=True)),
    "1000 tokens": (1, Drawing(count=32, tokens=1000)),
    "1000 tokens, 8 a prompt": (8, Drawing(count=64, whole_prompts=True, tokens=1000)),
}
"""Stored answers of a prompt at most, and how those of a step are drawn from them."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quickstart", type=Path, help="a directory with base_model and pool")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--most", type=int, default=400, help="stored answers that are looked at")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = stored_answers(options.quickstart, most=options.most)
    products = gradient_products(load(options.checkpoint), samples)
    first: tuple[float, float] | None = None
    for way, (answers, drawing) in WAYS.items():
        noise, tokens, rows = noise_of(samples, products, answers, drawing)
        first = first or (noise, tokens)
        found = {
            "way": way,
            "rows": round(rows, 1),
            "tokens": round(tokens),
            "noise / rows": round(noise / first[0], 2),
            "noise x tokens / rows": round(noise * tokens / (first[0] * first[1]), 2),
        }
        print(json.dumps(found), flush=True)


def load(directory: Path) -> PreTrainedModel:
    """A model of the quickstart."""
    return load_model(directory, device="cpu", attention="eager")


def stored_answers(quickstart: Path, *, most: int) -> list[RehearsalSample]:
    """Correct samples of near-perfect problems, whole problems until there are ``most``."""
    correct = defaultdict(list)
    for row in pq.read_table(quickstart / "pool" / "samples.parquet").to_pylist():
        if row["outcome"] == "CORRECT":
            correct[row["problem_id"]].append(tuple(row["token_ids"]))
    rows: list[tuple[RehearsalSample, int, tuple[int, ...]]] = []
    for sample in load_pool(quickstart / "pool").rehearsal:
        if len(rows) < most:
            found = enumerate(correct[sample.problem_id])
            rows += [(sample, place, ids) for place, ids in found]
    scores = score_completions(
        load(quickstart / "base_model"),
        [sample.prompt_ids for sample, _, _ in rows],
        [ids for _, _, ids in rows],
        temperature=1.0,
        pad_id=0,
        token_budget=2048,
        dtype="float32",
    )
    return [
        RehearsalSample(
            problem_id=sample.problem_id,
            sample_index=place,
            prompt_ids=sample.prompt_ids,
            completion_ids=ids,
            ref_logprobs=logprobs,
            correct=sample.correct,
        )
        for (sample, place, ids), logprobs in zip(rows, scores, strict=True)
    ]


def gradient_products(policy: PreTrainedModel, samples: Sequence[RehearsalSample]) -> Tensor:
    """Inner products of the gradients of all stored answers, each summed over its tokens."""
    divergence = make_objective(ObjectiveSettings(divergence="forward_kl", eta=1.0))
    term = divergence.anchors["rehearsal"].divergence
    parameters = [p for p in policy.parameters() if p.requires_grad]
    gradients = []
    for sample in samples:
        scores = completion_scores(
            policy, [sample.prompt_ids], [sample.completion_ids], temperature=1.0, pad_id=0
        )
        log_ratio = scores.logprobs[0] - torch.tensor(sample.ref_logprobs)
        found = torch.autograd.grad(term(log_ratio).sum(), parameters, allow_unused=True)
        gradients.append(torch.cat([g.flatten() for g in found if g is not None]))
    table = torch.stack(gradients)
    return (table @ table.T).double()


def noise_of(
    samples: Sequence[RehearsalSample], products: Tensor, answers: int, drawing: Drawing
) -> tuple[float, float, float]:
    """Mean |g - g of all|^2 of a step, and its mean tokens and rows."""
    held = [place for place, sample in enumerate(samples) if sample.sample_index < answers]
    place_of = {id(samples[place]): place for place in held}
    lengths = torch.tensor([float(len(sample.completion_ids)) for sample in samples])
    everything = torch.zeros(len(samples), dtype=torch.float64)
    everything[held] = 1 / float(lengths[held].sum())
    noise, tokens, rows = 0.0, 0, 0
    some = [samples[place] for place in held]
    for step in range(STEPS):
        drawn = stored_of_step(some, drawing, step, seed=0)
        chosen = [place_of[id(sample)] for sample in drawn]
        weights = -everything
        weights[chosen] += 1 / float(lengths[chosen].sum())
        noise += float(weights @ products @ weights)
        if step < STEPS // 20:  # the forest takes longer than the rest
            forest = prefix_forest(
                fed([s.prompt_ids for s in drawn], [s.completion_ids for s in drawn])
            )
            tokens += tokens_of(forest)
        rows += len(drawn)
    return noise / STEPS, tokens / (STEPS // 20), rows / STEPS


if __name__ == "__main__":
    main()

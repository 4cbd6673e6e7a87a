"""What stored answers add to a step of GRPO, by the way they are drawn.

    python -m benchmarks.rehearsal_ways [--only stops] [--repeats 5]

Every turn samples one rollout and then updates on it without and with stored answers, drawn in each
of the ways (`WAYS`), in another order every turn. A step is the sampling and one update; the ratio
of a turn is that of a step with stored answers to one of GRPO, both with the same sampling. CPU
time, one JSON line a way: the median of the ratios and their range, and the tokens that stored
answers add.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from benchmarks.speed.ours import Ours, scored
from benchmarks.speed.shapes import FIVE_MILLION, LONG, STOPS, Shape
from benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts
from dph.forward.prefix_tree import prefix_forest, tokens_of
from dph.objectives import make_objective
from dph.presampling.pool import RehearsalSample
from dph.records import Problem
from dph.settings import ObjectiveSettings
from dph.training.order import Drawing, stored_of_step
from dph.training.rows import Minibatch, StoredRow
from dph.training.updating import update

SHAPES = {"stops": STOPS, "long": LONG}
ROWS_PER_STORED = 8
"""Policy samples for each stored answer, as in benchmarks/speed/overheads.py."""
SCHEMA = 0.75
"""Of a prompt, as in the prompts of Spider (benchmarks/spider_prompts.py)."""
PROMPTS, ANSWERS = 32, 8
"""Of the store."""
WAYS = ("rows", "2 a prompt", "4 a prompt", "8 a prompt", "tokens", "schema", "schema, tokens")
TOKENS = 0.25
"""Of the policy's tokens, for the ways that count tokens."""


class Measured:
    """One shape: a policy, a store with and one without schemas, and the steps of every way."""

    def __init__(self, shape: Shape) -> None:
        world = World(size=FIVE_MILLION, shape=shape)
        self.ours = Ours(world, build_model(world))
        self.grpo = self.ours.objective
        self.dph = make_objective(ObjectiveSettings(divergence="forward_kl", eta=0.01))
        self.count = shape.rows // ROWS_PER_STORED
        schema = round(SCHEMA * shape.prompt)
        self.plain = self._store(world)
        self.schemas = self._store(
            replace(world, shape=replace(shape, schemas=PROMPTS // 16, schema=schema))
        )
        self.budget = 0

    def turn(self, number: int) -> dict[str, dict[str, float]]:
        """Seconds of a step and stored tokens, by way; that of GRPO is ``grpo``."""
        started = time.process_time()
        minibatch = self.ours.next_minibatch()
        sampling = time.process_time() - started
        policy = _tokens(minibatch, ())
        self.budget = round(TOKENS * policy)
        found = {}
        ways = ["grpo", *WAYS]
        for way in [*ways[number % len(ways) :], *ways[: number % len(ways)]]:
            stored = self._drawn(way, number)
            batch = replace(minibatch, stored={"rehearsal": tuple(stored)} if stored else {})
            started = time.process_time()
            update(
                batch,
                self.ours.forward,
                self.ours.optimizer,
                objective=self.dph if stored else self.grpo,
                max_grad_norm=1.0,
            )
            found[way] = {
                "step": sampling + time.process_time() - started,
                "rows": len(stored),
                "tokens": (_tokens(minibatch, stored) - policy) / policy,
            }
        return found

    def _drawn(self, way: str, step: int) -> list[StoredRow]:
        if way == "grpo":
            return []
        store = self.schemas if way.startswith("schema") else self.plain
        answers = int(way.split()[0]) if way[0].isdigit() else 1
        some = [sample for sample in store if sample.sample_index < answers]
        drawing = Drawing(
            count=self.count,
            whole_prompts=answers > 1,
            whole_schemas=way.startswith("schema"),
            tokens=self.budget if way.endswith("tokens") else None,
        )
        return stored_of_step(some, drawing, step, seed=0)[: self.count]

    def _store(self, world: World) -> list[RehearsalSample]:
        """Answers with the lengths of the policy's, of random words: their cost is the same."""
        tokenizer = build_tokenizer(world.size)
        encoded = [tuple(tokenizer.encode(p)) for p in make_prompts(world, PROMPTS, seed=1)]
        problems = [
            Problem(problem_id=f"{i}", prompt=tokenizer.decode(p)) for i, p in enumerate(encoded)
        ]
        drawn = self.ours.draw(problems, samples=ANSWERS, seed=1)
        rows = [
            (prompt, place, graded.completion.token_ids)
            for prompt, group in zip(drawn.prompts, drawn.groups, strict=True)
            for place, graded in enumerate(
                group.completions if hasattr(group, "completions") else group
            )
        ]
        scores = scored(self.ours.forward, [r[0] for r in rows], [r[2] for r in rows])
        return [
            RehearsalSample(
                problem_id=str(hash(prompt)),
                sample_index=place,
                prompt_ids=prompt,
                completion_ids=ids,
                ref_logprobs=logprobs,
                correct=8,
            )
            for (prompt, place, ids), logprobs in zip(rows, scores, strict=True)
        ]


def _tokens(minibatch: Minibatch, stored: Sequence[StoredRow]) -> int:
    rows = [row for group in minibatch.groups for row in group]
    return tokens_of(
        prefix_forest([(*r.prompt_ids, *r.completion_ids[:-1]) for r in (*rows, *stored)])
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SHAPES, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in [options.only] if options.only else SHAPES:
        measured = Measured(SHAPES[name])
        measured.turn(0)
        turns = [measured.turn(number + 1) for number in range(options.repeats)]
        for way in WAYS:
            ratios = sorted(turn[way]["step"] / turn["grpo"]["step"] for turn in turns)
            row: dict[str, Any] = {
                "shape": str(SHAPES[name]),
                "way": way,
                "step / grpo": round(median(ratios), 3),
                "range": [round(ratios[0], 3), round(ratios[-1], 3)],
                "stored rows": median(turn[way]["rows"] for turn in turns),
                "stored tokens / policy tokens": round(
                    median(turn[way]["tokens"] for turn in turns), 2
                ),
                "repeats": options.repeats,
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

"""What stored answers add to a step of GRPO, by the way they are drawn.

    python -m lab.benchmarks.rehearsal_ways [--only stops] [--repeats 5] [--ways rows,tokens]

One rollout is sampled (twice, the faster counts). Every turn then updates on it without and with
stored answers, drawn in each of the ways (`WAYS`), in another order every turn. A step is the
sampling and one update; the ratio of a turn is that of a step with stored answers to one of GRPO.
CPU time; one JSON line a way: the median of the ratios and their range, and the tokens that stored
answers add.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from dph.loss.objectives import make_objective
from dph.model.forward.prefix_tree import fed, prefix_forest, tokens_of
from dph.recipe import ObjectiveSettings
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import Drawing, Minibatch, stored_of_step
from dph.runs.train.updating import update
from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.shapes import FIVE_MILLION, LONG, STOPS, Shape
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts

SHAPES = {"stops": STOPS, "long": LONG}
ROWS_PER_STORED = 8
"""Policy samples for each stored answer, as in lab/benchmarks/speed/overheads.py."""
SCHEMA = 0.75
"""Of a prompt."""
PROMPTS, ANSWERS = 32, 8
"""Of the store; with schemas, sixteen prompts have one."""
WAYS = ("rows", "2 a prompt", "4 a prompt", "8 a prompt", "tokens", "schema", "schema, tokens")
TOKENS = 0.25
"""Of the policy's tokens, for the ways that count tokens."""


class Measured:
    """One shape: a rollout, a store without and one with schemas, and an update for every way."""

    def __init__(self, shape: Shape) -> None:
        world = World(size=FIVE_MILLION, shape=shape)
        self.ours = Ours(world, build_model(world))
        self.dph = make_objective(ObjectiveSettings(divergence="forward_kl", eta=0.01))
        self.sampling = float("inf")
        for _ in range(2):
            started = time.process_time()
            self.rollout = self.ours.next_minibatch()
            self.sampling = min(self.sampling, time.process_time() - started)
        self.policy_tokens = _tokens(self.rollout, ())
        schema = round(SCHEMA * shape.prompt)
        schemas = replace(shape, schemas=PROMPTS // 16, schema=schema)
        self.plain = self._store(world)
        self.schemas = self._store(replace(world, shape=schemas))
        self.count = shape.rows // ROWS_PER_STORED

    def turn(self, number: int, ways: Sequence[str]) -> dict[str, dict[str, float]]:
        """Seconds of a step, stored rows and their tokens, by way; that of GRPO is ``grpo``."""
        found = {}
        order = ["grpo", *ways]
        shift = number % len(order)
        for way in [*order[shift:], *order[:shift]]:
            stored = self._drawn(way, number)
            batch = replace(self.rollout, stored={"rehearsal": tuple(stored)} if stored else {})
            started = time.process_time()
            update(
                batch,
                self.ours.forward,
                self.ours.optimizer,
                objective=self.dph if stored else self.ours.objective,
                max_grad_norm=1.0,
            )
            found[way] = {
                "step": self.sampling + time.process_time() - started,
                "rows": len(stored),
                "tokens": _tokens(self.rollout, stored) / self.policy_tokens - 1,
            }
        return found

    def _drawn(self, way: str, step: int) -> list[RehearsalSample]:
        if way == "grpo":
            return []
        store = self.schemas if way.startswith("schema") else self.plain
        answers = int(way.split()[0]) if way[0].isdigit() else 1
        some = [sample for sample in store if sample.sample_index < answers]
        drawing = Drawing(
            count=self.count,
            whole_prompts=answers > 1,
            whole_schemas=way.startswith("schema"),
            tokens=round(TOKENS * self.policy_tokens) if way.endswith("tokens") else None,
        )
        return stored_of_step(some, drawing, step, seed=0)[: self.count]

    def _store(self, world: World) -> list[RehearsalSample]:
        """Answers of random words, as long as the policy's: what they are costs nothing."""
        tokenizer, numbers = build_tokenizer(world.size), random.Random(0)
        lengths = [len(row.completion_ids) for group in self.rollout.groups for row in group]
        store = []
        for place, prompt in enumerate(make_prompts(world, PROMPTS, seed=1)):
            ids = tuple(tokenizer.encode(prompt))
            for answer in range(ANSWERS):
                length = numbers.choice(lengths)
                store.append(
                    RehearsalSample(
                        problem_id=str(place),
                        sample_index=answer,
                        prompt_ids=ids,
                        completion_ids=tuple(numbers.choices(range(2, 4096), k=length)),
                        ref_logprobs=(-8.3,) * length,
                        correct=8,
                    )
                )
        return store


def _tokens(minibatch: Minibatch, stored: Sequence[RehearsalSample]) -> int:
    rows = [*(row for group in minibatch.groups for row in group), *stored]
    return tokens_of(
        prefix_forest(fed([r.prompt_ids for r in rows], [r.completion_ids for r in rows]))
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SHAPES, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ways", default=",".join(w.replace(",", ";") for w in WAYS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    ways = [way.replace(";", ",") for way in options.ways.split(",")]
    for name in [options.only] if options.only else SHAPES:
        measured = Measured(SHAPES[name])
        measured.turn(0, ways[:1])
        turns = []
        for number in range(options.repeats):
            turns.append(measured.turn(number + 1, ways))
            for way in ways:
                print(json.dumps(_row(name, way, turns)), flush=True)


def _row(shape: str, way: str, turns: Sequence[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """One way after some turns."""
    ratios = sorted(turn[way]["step"] / turn["grpo"]["step"] for turn in turns)
    return {
        "shape": str(SHAPES[shape]),
        "way": way,
        "repeats": len(turns),
        "step / grpo": round(median(ratios), 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "stored rows": median(turn[way]["rows"] for turn in turns),
        "stored / policy tokens": round(median(turn[way]["tokens"] for turn in turns), 2),
    }


if __name__ == "__main__":
    main()

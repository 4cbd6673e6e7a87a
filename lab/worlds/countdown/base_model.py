"""The base model: a small Llama that imitates blind walks, trained from scratch.

A walk is made first and its end is the target, so that every answer it learns is right and no
solver is needed. What it cannot learn from them is where a first step leads: its mistakes are those
of search.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from lab.worlds.countdown.kind import STEPS
from lab.worlds.countdown.verifier import LARGEST, OPERATORS
from lab.worlds.countdown.world import (
    OTHERS,
    SETS,
    TRAINED,
    CountdownWorld,
    Key,
    PuzzleDomain,
    draw_puzzle,
)
from lab.worlds.small_model import (
    NO_TARGET,
    SPECIAL,
    AnswerRows,
    train_model,
    train_once,
    word_tokenizer,
)
from lab.worlds.world import UNLABELLED, Progress, fingerprint

# The word-level tokenizer of the Countdown world: a token for each number and sign.


def vocabulary() -> tuple[str, ...]:
    """Every token, in the order of the ids; a number is never split."""
    numbers = map(str, range(1, LARGEST + 1))
    return (*SPECIAL, ":", "->", ",", "=", *OPERATORS, *numbers)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; decoding gives back every text of the world, blank for blank."""
    return word_tokenizer(vocabulary(), pre_tokenizers.WhitespaceSplit())


ROWS_PER_STEP = ((TRAINED, 40), (OTHERS, 20))
ROWS_AT_ONCE = 40
"""So many rows of one length fit the CPU's caches: 80 at once take a tenth longer."""


@dataclass(frozen=True, slots=True)
class WalkCorpus:
    """Puzzles with the walks that made them, new ones at every step."""

    taken: Collection[Key]
    tokenizer: PreTrainedTokenizerFast

    def batches(self, rng: Random, *, steps: int) -> Iterator[list[AnswerRows]]:
        """One batch for each step, in pieces whose rows have one length: nothing is padded."""
        ids = self.tokenizer.get_vocab()
        for _ in range(steps):
            batch: list[AnswerRows] = []
            for domain, count in ROWS_PER_STEP:
                rows = [self._row(domain, rng) for _ in range(count)]
                batch += [
                    self._encode(rows[start : start + ROWS_AT_ONCE], ids)
                    for start in range(0, count, ROWS_AT_ONCE)
                ]
            yield batch

    def _row(self, domain: PuzzleDomain, rng: Random) -> tuple[str, str]:
        while True:
            puzzle, derivation = draw_puzzle(domain, rng)
            if puzzle.key not in self.taken:
                return puzzle.prompt, derivation

    def _encode(self, rows: list[tuple[str, str]], ids: dict[str, int]) -> AnswerRows:
        """Rows of prompts and answers of as many tokens each."""
        start, end = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        prompt_tokens = 1 + len(rows[0][0].split())
        tokens = torch.tensor(
            [[start, *(ids[word] for word in f"{p} {a}".split()), end] for p, a in rows]
        )
        targets = tokens[:, 1:].clone()
        targets[:, : prompt_tokens - 1] = NO_TARGET
        return AnswerRows(input_ids=tokens[:, :-1], targets=targets)


def train_base_model(
    world: CountdownWorld,
    directory: Path,
    *,
    seed: int,
    steps: int = STEPS,
    on_progress: Progress | None = None,
) -> None:
    """Train the base model of a built world, once (``lab.worlds.small_model.train_once``).

    No puzzle of any of the world's sets is trained on, in whatever order its numbers are.
    ``on_progress`` is called with the number of steps done since the last call.
    """

    def taught(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        rng = Random(f"countdown base model {seed}: walks")
        batches = make_corpus(world, tokenizer).batches(rng, steps=steps)
        train_model(model, batches, steps=steps, on_progress=on_progress)

    train_once(
        directory,
        make_tokenizer,
        taught,
        world=fingerprint(world),
        seed=seed,
        steps=steps,
        on_progress=on_progress,
    )


def make_corpus(world: CountdownWorld, tokenizer: PreTrainedTokenizerFast) -> WalkCorpus:
    """The corpus that holds none of a built world's puzzles."""
    taken = {puzzle.key for name in (*SETS, UNLABELLED) for puzzle in world.puzzles(name)}
    return WalkCorpus(frozenset(taken), tokenizer)

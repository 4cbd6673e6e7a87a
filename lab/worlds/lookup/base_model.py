"""The base model: a small Llama that guesses where it could ask, trained from scratch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from lab.worlds.lookup.house import (
    OTHERS,
    PEOPLE,
    PLACES,
    TRAINED,
    WAYS,
    prompt_of,
    turns_of,
)
from lab.worlds.lookup.kind import STEPS
from lab.worlds.small_model import (
    NO_TARGET,
    SPECIAL,
    AnswerRows,
    train_model,
    train_once,
    word_tokenizer,
)
from lab.worlds.world import Progress, World, fingerprint

ASKED = 0.25
"""Share of the base model's answers that ask first; its likeliest answer is a guess."""
ROWS_PER_STEP = 96
_FIRST = 0.5
"""Share of the steps in which most answers ask: it learns how before it learns how often."""


def vocabulary() -> tuple[str, ...]:
    """Every token, in the order of the ids; a call has one for the tool and one with its value."""
    things = (*TRAINED, *OTHERS)
    calls = [f'{tool}("{thing}")' for tool in ("look", "ask", "owner") for thing in things]
    calls += [f'room("{person}")' for person in PEOPLE]
    words = ("where", "is", "?", "in", "CALL", "RESULT", "nothing", "nobody")
    return (*SPECIAL, *words, *things, *PLACES, *PEOPLE, *calls)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; decoding gives back every text of the world."""
    return word_tokenizer(vocabulary(), pre_tokenizers.WhitespaceSplit())


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Trajectories to imitate, new ones at every step."""

    tokenizer: PreTrainedTokenizerFast

    def batches(self, rng: Random, *, steps: int) -> Iterator[list[AnswerRows]]:
        """One batch for each step, in pieces whose rows go one way: nothing is padded."""
        for step in range(steps):
            asked = 0.75 if step < _FIRST * steps else ASKED
            shares = {"": 1 - asked, **{way: asked * share for way, share in WAYS.items()}}
            ways = rng.choices(list(shares), list(shares.values()), k=ROWS_PER_STEP)
            yield [self._rows(way, ways.count(way), rng) for way in shares if way in ways]

    def _rows(self, way: str, count: int, rng: Random) -> AnswerRows:
        rows = [self._row(way, rng) for _ in range(count)]
        tokens = torch.tensor([ids for ids, _ in rows])
        mine = torch.tensor([own for _, own in rows])
        targets = tokens[:, 1:].masked_fill(~mine[:, 1:], NO_TARGET)
        return AnswerRows(input_ids=tokens[:, :-1], targets=targets)

    def _row(self, way: str, rng: Random) -> tuple[list[int], list[bool]]:
        """Tokens of a trajectory, and which of them the policy writes."""
        ids, end = self.tokenizer.get_vocab(), self.tokenizer.eos_token_id
        thing = rng.choice((*TRAINED, *OTHERS))
        turns = turns_of(way, thing, rng.choice(PLACES), rng.choice(PEOPLE))
        tokens = [self.tokenizer.bos_token_id, *(ids[word] for word in prompt_of(thing).split())]
        mine = [False] * len(tokens)
        for text, own in turns:
            said = [*(ids[word] for word in text.split()), *([end] if own else [])]
            tokens += said
            mine += [own] * len(said)
        return tokens, mine


def train_base_model(
    world: World,
    directory: Path,
    *,
    seed: int,
    steps: int = STEPS,
    on_progress: Progress | None = None,
) -> None:
    """Train the base model of a built world, once (``lab.worlds.small_model.train_once``).

    Places and owners are drawn anew in every trajectory, so no set can be learnt by heart.

    Raises:
        ModelError: ``directory`` holds something else.
        SettingsError: ``steps`` is below 1.
    """

    def taught(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        batches = Demonstrations(tokenizer).batches(
            Random(f"lookup base model {seed}: demonstrations"), steps=steps
        )
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

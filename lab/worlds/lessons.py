"""Lessons of a base model: a prompt, and the exact chances of all of its answers.

Sampled answers teach a model the frequencies of what annotators say only by many samples. Here the
chances are known, so an answer is sampled only to decide which tokens are read; what should come
next is the distribution itself. In expectation the gradient is the same, with less noise.

An answer is a row of cells, one for each token and one for the end. A *choice* is a random
decision of whoever answers; cells that depend on it have one token for each option. Choices are
independent of each other, so the distribution of a cell is that of its choice where the choice
shows for the first time, and certain where it has shown before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """All answers to a prompt by all who answer, one after the other, as arrays over cells."""

    options: Ints
    """[cells, options]: the token of a cell for each option of its choice."""
    choice: Ints
    """[cells]: which choice a cell depends on; 0 is the choice that has one option only."""
    shows_first: NDArray[np.bool_]
    """[cells]: whether a cell is the first of its answer that depends on its choice."""
    chances: Floats
    """[choices, options]: how likely each option is."""
    answer: Ints
    """[cells]: the number of the answer, from 1."""

    def __post_init__(self) -> None:
        cells, options = self.options.shape
        if self.chances.shape[1] != options or self.choice.shape != (cells,):
            raise ValueError(f"{options} options for {self.chances.shape} chances")
        if abs(self.chances.sum(1) - 1).max() > 1e-9:
            raise ValueError(f"chances add up to 1, got {self.chances.sum(1)}")

    def draw(self, uniforms: Floats) -> tuple[Ints, Floats]:
        """One answer by each who answers, from a uniform number for each choice.

        Returns the token of every cell, and [cells, options] how likely each option was when all
        cells of the same answer before it were known.
        """
        taken = (uniforms[:, None] >= self.chances.cumsum(1)[:, :-1]).sum(1)[self.choice]
        tokens = np.take_along_axis(self.options, taken[:, None], axis=1)[:, 0]
        certain = np.arange(self.chances.shape[1]) == taken[:, None]
        likely = np.where(self.shows_first[:, None], self.chances[self.choice], certain)
        return tokens, likely


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A prompt in two parts and its answers."""

    stem: tuple[int, ...]
    """Beginning of the prompt, shared with other lessons."""
    prompt: tuple[int, ...]
    """The rest of the prompt; at least one token."""
    answers: Answers

    def __len__(self) -> int:
        """Tokens without the stem."""
        return len(self.prompt) + len(self.answers.choice)


@dataclass(frozen=True, slots=True)
class Answerer:
    """Possible answers of one author, given by what each choice alone changes."""

    usual: Sequence[int]
    """The answer with the first option of every choice, its end included."""
    varied: Sequence[Sequence[Sequence[int]]]
    """For each choice, the answers with each of its other options, all else as usual."""
    chances: Sequence[Sequence[float]]
    """For each choice, how likely its options are."""

    def __post_init__(self) -> None:
        lengths = {len(other) for others in self.varied for other in others}
        if lengths - {len(self.usual)}:
            raise ValueError(f"answers of {lengths} tokens next to one of {len(self.usual)}")

    def cells(self) -> Iterator[tuple[int, list[int]]]:
        """For each cell its choice, counted from 1 (0: none), and its token for each option."""
        flat = [other for others in self.varied for other in others]
        for cell, (token, *tokens) in enumerate(zip(self.usual, *flat, strict=True)):
            if tokens.count(token) == len(tokens):
                yield 0, [token]
                continue
            changed = [
                choice
                for choice, others in enumerate(self.varied, start=1)
                if any(other[cell] != token for other in others)
            ]
            if len(changed) > 1:
                raise ValueError(f"choices {changed} change one cell, {cell} of {self.usual}")
            yield changed[0], [token, *(other[cell] for other in self.varied[changed[0] - 1])]


def answers_of(answerers: Sequence[Answerer]) -> Answers:
    """The answers of several who answer independently of each other."""
    width = max([2, *(len(options) for each in answerers for options in each.chances)])
    rows: list[list[int]] = []
    """Of each cell: choice, whether it shows first, answer, options."""
    chances = [[1.0, *[0.0] * (width - 1)]]
    for number, each in enumerate(answerers, start=1):
        shown: set[int] = set()
        before = len(chances) - 1
        for choice, options in each.cells():
            first = choice not in shown
            shown.add(choice)
            padding = [options[0]] * (width - len(options))
            of_all = before + choice if choice else 0
            rows.append([of_all, first, number, *options, *padding])
        chances += [[*options, *[0.0] * (width - len(options))] for options in each.chances]
    table = np.array(rows)
    return Answers(
        choice=table[:, 0],
        shows_first=table[:, 1] > 0,
        answer=table[:, 2],
        options=table[:, 3:],
        chances=np.array(chances),
    )

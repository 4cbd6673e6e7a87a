"""Models whose truth is known, and answers drawn of them, as evaluations on disk."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dph.records import Outcome
from dph.results.diagnosis.styles import StyleCounts
from dph.runs.evaluate.samples_file import SAMPLES, write_samples
from dph.runs.evaluate.scores import SetScores

STYLES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Model:
    """For each problem the shares of the styles and the chance of a right answer in each."""

    shares: np.ndarray
    chances: np.ndarray

    def drawn(self, samples, seed):
        """Styles (as numbers) and right or not, problems by samples."""
        rng = np.random.default_rng(seed)
        problems, styles = self.shares.shape
        edges = np.cumsum(self.shares, axis=1)
        style = (rng.random((problems, samples))[:, :, None] > edges[:, None, :]).sum(axis=2)
        style = np.minimum(style, styles - 1)
        chance = np.take_along_axis(self.chances, style, axis=1)
        return style, rng.random((problems, samples)) < chance


def a_model(problems, seed=0, styles=4):
    """Hard and easy problems, on which the styles are good and bad at different ones."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(styles, 5.0), size=problems)
    return Model(shares=shares, chances=rng.beta(0.5, 0.5, size=(problems, styles)))


def collapsed(base, kept):
    """The model with ``kept`` of its mass in the first style."""
    shares = np.full(base.shares.shape, (1 - kept) / (base.shares.shape[1] - 1))
    shares[:, 0] = kept
    return Model(shares=shares, chances=base.chances)


def samples_of(style, right, *, set_name="dev", names=STYLES):
    """Drawn answers as a samples table; ``names`` may hold None."""
    problems, samples = right.shape
    rows = problems * samples
    ids = np.repeat([f"p{i:04d}" for i in range(problems)], samples)
    outcome = np.where(right.ravel(), Outcome.CORRECT.value, Outcome.WRONG.value)
    columns = {
        "set": [set_name] * rows,
        "problem_id": ids.tolist(),
        "sample_index": np.tile(np.arange(samples), problems),
        "text": ["x"] * rows,
        "tokens": [1] * rows,
        "finished": [True] * rows,
        "outcome": outcome.tolist(),
        "reward": right.ravel().astype(float),
        "reason": [""] * rows,
        "style": [names[i] for i in style.ravel()],
    }
    return pa.table(columns, schema=SAMPLES)


def save_evaluation(directory, *tables):
    """An evaluation with these sets."""
    directory.mkdir(parents=True, exist_ok=True)
    write_samples(directory / "samples.parquet", pa.concat_tables(tables), digest="d")
    return directory


def scores_of(right):
    """Scores of right or not, problems by samples."""
    right = np.asarray(right, dtype=bool)
    return SetScores(
        problem_ids=tuple(f"p{i:04d}" for i in range(len(right))),
        correct=right,
        rewards=right.astype(float),
        greedy=None,
        shares={},
    )


def scores_with(counts, samples):
    """Scores of problems with these many right answers of ``samples``."""
    return scores_of(np.arange(samples)[None, :] < np.asarray(counts)[:, None])


def counts_of(answers, correct, styles=STYLES):
    """Style counts from two matrices, problems by styles."""
    answers, correct = np.asarray(answers), np.asarray(correct)
    return StyleCounts(styles=tuple(styles[: answers.shape[1]]), answers=answers, correct=correct)


def drawn_counts(model, samples, seed, styles=STYLES):
    """Style counts of answers drawn of a model."""
    style, right = model.drawn(samples, seed)
    count = model.shares.shape[1]
    each = [style == s for s in range(count)]
    return counts_of(
        np.stack([one.sum(axis=1) for one in each], axis=1),
        np.stack([(one & right).sum(axis=1) for one in each], axis=1),
        styles,
    )

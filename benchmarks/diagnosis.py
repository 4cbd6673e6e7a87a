r"""How a diagnosis does where the truth is known: nothing happened, losses planted, styles gone.

    python benchmarks/diagnosis.py [--seeds 100]

Prints the tables of docs/diagnosis.md. The models are mixtures of four styles over 300 problems:
shares of the styles from a Dirichlet(5), a style's chance of being right from a Beta(1/2, 1/2), all
drawn for each problem. No files, no torch.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from dph.diagnosis.changes import Change, problem_changes, smallest_rates
from dph.diagnosis.dead_styles import style_changes
from dph.diagnosis.decomposition import between, pass_at_k_parts, shapley_values
from dph.diagnosis.levels import list_level, question_level
from dph.diagnosis.style_counts import StyleCounts
from dph.diagnosis.totals import set_totals
from dph.evaluation.scores import SetScores

PROBLEMS, STYLES, K = 300, 4, 8
NAMES = tuple("abcd")


@dataclass(frozen=True)
class Model:
    """Shares of styles and chances of being right, problems by styles."""

    shares: np.ndarray
    chances: np.ndarray

    def draw(self, samples: int, rng: np.random.Generator) -> tuple[SetScores, StyleCounts]:
        """Graded samples, as scores and by style."""
        answers = np.stack([rng.multinomial(samples, row) for row in self.shares])
        correct = rng.binomial(answers, self.chances)
        return (
            _scores(correct.sum(axis=1), samples),
            StyleCounts(styles=NAMES, answers=answers, correct=correct),
        )


def base_model(rng: np.random.Generator, problems: int = PROBLEMS) -> Model:
    """A base model, hard and easy problems alike."""
    return Model(
        shares=rng.dirichlet(np.full(STYLES, 5.0), size=problems),
        chances=rng.beta(0.5, 0.5, size=(problems, STYLES)),
    )


def _scores(counts: np.ndarray, samples: int) -> SetScores:
    correct = np.arange(samples)[None, :] < counts[:, None]
    ids = tuple(str(i) for i in range(len(counts)))
    return SetScores(
        problem_ids=ids, correct=correct, rewards=correct.astype(float), greedy=None, shares={}
    )


def nothing_happened(samples: int, seeds: int) -> None:
    """In how many comparisons of a model with itself something is named."""
    level = question_level(0.05)
    named = dict.fromkeys(("lost or gained", "style", "total"), 0)
    anything = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        model = base_model(rng)
        (mine, my_styles), (theirs, their_styles) = (
            model.draw(samples, rng),
            model.draw(samples, rng),
        )
        found = {
            "lost or gained": min(smallest_rates(mine, theirs)) <= list_level([1.0], level),
            "style": any(one.died for one in style_changes(my_styles, their_styles, level=level)),
            "total": set_totals(mine, theirs).smallest_rate <= level,
        }
        anything += any(found.values())
        for question, is_named in found.items():
            named[question] += is_named
    cells = " | ".join(str(count) for count in named.values())
    print(f"| {samples} | {seeds} | {cells} | {anything} |", flush=True)


def losses_planted(samples: int, seeds: int, fdr: float) -> None:
    """How many of twenty planted losses are found, and how many of those found are false."""
    level = question_level(fdr)
    found_of, false, worst = {lo: [] for lo in (0.25, 0.5, 0.75)}, [], 0.0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        model = base_model(rng)
        chance = (model.shares * model.chances).sum(axis=1)
        mine, theirs = model.draw(samples, rng)[0], model.draw(samples, rng)[0]
        planted = rng.choice(np.flatnonzero(chance >= 0.25), 20, replace=False)
        counts = mine.correct_counts.copy()
        counts[planted] = 0
        changes = problem_changes(
            _scores(counts, samples), theirs, lost_level=level, gained_level=level
        )
        lost = np.array([one.change is Change.LOST for one in changes])
        true = np.isin(np.arange(PROBLEMS), planted)
        false.append((lost & ~true).sum() / max(1, lost.sum()))
        for lo, found in found_of.items():
            found.extend(lost[true & (chance >= lo) & (chance < lo + 0.25)])
    worst = max(false)
    cells = " | ".join(f"{100 * np.mean(found):.0f}%" for found in found_of.values())
    print(f"| {samples} | {fdr:g} | {cells} | {100 * np.mean(false):.1f}% | {100 * worst:.0f}% |")


def where_pass_at_k_went(samples: int) -> None:
    """Parts from samples beside those of the models themselves, for changes of one kind each."""
    rng = np.random.default_rng(0)
    base = base_model(rng, 10_000)
    gone = Model(shares=np.tile([0.97, 0.01, 0.01, 0.01], (10_000, 1)), chances=base.chances)
    moved = Model(shares=np.tile([0.7, 0.1, 0.1, 0.1], (10_000, 1)), chances=base.chances)
    sharper = np.where(base.chances > 0.5, base.chances**0.3, base.chances**3)
    cases = {
        "three styles go": (gone, ["b", "c", "d"]),
        "mass moves to one": (moved, []),
        "styles get certain": (Model(shares=base.shares, chances=sharper), []),
        "certain, and three go": (Model(shares=gone.shares, chances=sharper), ["b", "c", "d"]),
    }
    for name, (run, dead) in cases.items():
        parts = pass_at_k_parts(run.draw(samples, rng)[1], base.draw(samples, rng)[1], dead, k=K)
        estimate = [parts.styles_died, parts.certainty, parts.moved]
        cells = (f"{100 * part.mean():+.1f}" for part in estimate)
        truth, direct = _truth(run, base, dead)
        exact = (f"{100 * part:+.1f}" for part in truth)
        other = (f"{100 * part:+.1f}" for part in direct)
        print(f"| {name} | {samples} | {' '.join(cells)} | {' '.join(exact)} | {' '.join(other)} |")


def _truth(run: Model, base: Model, dead: list[str]) -> tuple[list[float], list[float]]:
    """The parts of the models themselves: by the slope, and Shapley values of Pass@k itself."""
    sides = [
        StyleCounts(styles=NAMES, answers=one.shares, correct=one.shares * one.chances)
        for one in (run, base)
    ]
    chances = between(*sides, np.isin(NAMES, dead))
    passes = {changed: 1 - (1 - p) ** K for changed, p in chances.items()}
    everything, nothing = (True,) * 3, (False,) * 3
    change = chances[everything] - chances[nothing]
    flat = np.abs(change) < 1e-9
    slope = np.where(
        flat,
        K * (1 - chances[nothing]) ** (K - 1),
        (passes[everything] - passes[nothing]) / np.where(flat, 1, change),
    )
    by_slope = [float((slope * part).mean()) for part in shapley_values(chances)]
    return by_slope, [float(part.mean()) for part in shapley_values(passes)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    print("| samples | comparisons | lost or gained | style | total | anything |")
    print("|---:|---:|---:|---:|---:|---:|")
    for samples in (8, 16, 64):
        nothing_happened(samples, seeds)
    print(
        "\n| samples | fdr | found, 25-50% | 50-75% | 75-100% | false, mean | false, worst seed |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for samples in (8, 16, 64):
        for fdr in (0.05, 0.2):
            losses_planted(samples, seeds, fdr)
    print(f"\n| what changed, Pass@{K} in points | samples | parts | of the models | unscaled |")
    print("|---|---:|---|---|---|")
    for samples in (16, 64):
        where_pass_at_k_went(samples)


if __name__ == "__main__":
    main()

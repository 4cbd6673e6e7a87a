r"""How a diagnosis does where the truth is known: nothing happened, losses planted, styles gone.

    python lab/benchmarks/diagnosis.py [--seeds 100] [--table nothing | planted | parts]

Prints the tables of docs/diagnosis.md. The models are mixtures of four styles over 300 problems:
shares of the styles from a Dirichlet(5), a style's chance of being right from a Beta(1/2, 1/2), all
drawn for each problem. No files, no torch.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from dph.results.diagnosis.changes import (
    Change,
    list_level,
    problem_changes,
    question_level,
    smallest_rates,
)
from dph.results.diagnosis.decomposition import between, pass_at_k_parts, shapley_values
from dph.results.diagnosis.style_counts import StyleCounts, style_changes
from dph.results.diagnosis.totals import set_totals
from dph.runs.evaluate.metrics import pass_at_k_curve
from dph.runs.evaluate.scores import SetScores

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
    found_of, false = {lo: [] for lo in (0.25, 0.5, 0.75)}, []
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
    cells = " | ".join(f"{100 * np.mean(found):.0f}%" for found in found_of.values())
    mean, worst = 100 * np.mean(false), 100 * max(false)
    print(f"| {samples} | {fdr:g} | {cells} | {mean:.1f}% | {worst:.0f}% |", flush=True)


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
        mine, theirs = run.draw(samples, rng)[1], base.draw(samples, rng)[1]
        parts = pass_at_k_parts(mine, theirs, dead, k=K)
        cells = [_points([parts.styles_died, parts.certainty, parts.moved])]
        drawn = _unscaled(between(mine, theirs, np.isin(NAMES, dead)), samples)
        cells += [_points(_of_models(run, base, dead)), _points(drawn)]
        cells += [_points(_unscaled(_chances(run, base, dead), None))]
        print(f"| {name} | {samples} | {' | '.join(cells)} |", flush=True)


def _points(parts: list[np.ndarray]) -> str:
    return " ".join(f"{round(100 * part.mean(), 1) + 0.0:+.1f}" for part in parts)


def _chances(run: Model, base: Model, dead: list[str]) -> dict[tuple[bool, bool, bool], np.ndarray]:
    """Chances of a right answer of the models themselves, whatever has changed of the three."""
    sides = [
        StyleCounts(styles=NAMES, answers=one.shares, correct=one.shares * one.chances)
        for one in (run, base)
    ]
    return between(*sides, np.isin(NAMES, dead))


def _unscaled(
    chances: dict[tuple[bool, bool, bool], np.ndarray], samples: int | None
) -> list[np.ndarray]:
    """Shapley values of Pass@k itself: of the models, or estimated from so many samples."""
    if samples is None:
        return shapley_values({changed: 1 - (1 - p) ** K for changed, p in chances.items()})
    whole = np.arange(samples + 1)
    curve = pass_at_k_curve(samples, whole, [K])[K]
    return shapley_values(
        {changed: np.interp(p * samples, whole, curve) for changed, p in chances.items()}
    )


def _of_models(run: Model, base: Model, dead: list[str]) -> list[np.ndarray]:
    """The parts of the models themselves, by the slope: what the estimate is of."""
    chances = _chances(run, base, dead)
    before, after = chances[False, False, False], chances[True, True, True]
    flat = np.abs(after - before) < 1e-9
    rise = (1 - before) ** K - (1 - after) ** K
    slope = np.where(flat, K * (1 - before) ** (K - 1), rise / np.where(flat, 1, after - before))
    return [slope * part for part in shapley_values(chances)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--table", choices=_TABLES, action="append", help="default: all")
    arguments = parser.parse_args()
    for table in arguments.table or _TABLES:
        _TABLES[table](arguments.seeds)
        print()


def _nothing(seeds: int) -> None:
    print("| samples | comparisons | lost or gained | style | total | anything |")
    print("|---:|---:|---:|---:|---:|---:|")
    for samples in (8, 16, 64):
        nothing_happened(samples, seeds)


def _planted(seeds: int) -> None:
    print("| samples | fdr | found, 25-50% | 50-75% | 75-100% | false, mean | false, worst seed |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for samples in (8, 16, 64):
        for fdr in (0.05, 0.2):
            losses_planted(samples, seeds, fdr)


def _parts(_: int) -> None:
    print(f"| Pass@{K} in points | samples | parts | of the models | unscaled | of the models |")
    print("|---|---:|---|---|---|---|")
    for samples in (16, 64):
        where_pass_at_k_went(samples)


_TABLES = {"nothing": _nothing, "planted": _planted, "parts": _parts}

if __name__ == "__main__":
    main()

"""How styles and Pass@k hang together in the quickstart world: the annotators' own scores.

    python lab/benchmarks/quickstart_world.py [--write docs/quickstart-world.md]

Every annotator answers 150 fresh questions of each side of seeds 0, 1 and 2, 32 times each; so does
the even mixture of all five, which the base model imitates. With --write the part of that file
between the two markers is replaced.
"""

import argparse
from collections import Counter
from pathlib import Path
from random import Random
from statistics import fmean, pstdev

from marked_blocks import write_block

from dph.runs.evaluate.metrics import pass_at_k
from dph.tasks.verifiers.sql.extraction import extract_sql
from lab.worlds.sql.annotators import Annotator
from lab.worlds.sql.domains import Database
from lab.worlds.sql.question_sets import draw_questions, gold_sql
from lab.worlds.sql.questions import Question
from lab.worlds.sql.world import design_world

SEEDS, QUESTIONS, SAMPLES = (0, 1, 2), 150, 32


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    sides = [side for seed in SEEDS for side in measure(seed)]
    text = describe(sides)
    print(text)
    if arguments.write:
        write_block(arguments.write, "annotators", text)


def measure(seed: int) -> list[list[list[int]]]:
    """For each side and question: correct answers of 32 by each annotator, then by the mixture."""
    world = design_world(Path("not-written"), seed=seed)
    rng = Random(f"quickstart world measured {seed}")
    sides = []
    for databases in (world.in_domain, world.cross_domain):
        by_domain = {database.domain.name: database for database in databases}
        questions = draw_questions(databases, world.annotators, QUESTIONS, rng)
        sides.append(
            [
                correct(question, by_domain[question.domain.name], world.annotators, rng)
                for question in questions
            ]
        )
    return sides


def correct(
    question: Question, database: Database, annotators: tuple[Annotator, ...], rng: Random
) -> list[int]:
    """Correct answers by each annotator and by the mixture."""
    gold = database.oracle(gold_sql(question))

    def is_right(annotator: Annotator) -> bool:
        found = extract_sql(annotator.answer(question, rng))
        return found is not None and database.oracle(found.statement) == gold

    alone = [sum(is_right(a) for _ in range(SAMPLES)) for a in annotators]
    return [*alone, sum(is_right(rng.choice(annotators)) for _ in range(SAMPLES))]


def describe(sides: list[list[list[int]]]) -> str:
    """The measurements as markdown."""
    rows = [row for side in sides for row in side]
    helpful = Counter(sum(2 * c >= SAMPLES for c in row[:-1]) for row in rows)
    shares = [helpful[n] / len(rows) for n in range(6)]
    means = [[fmean(row[a] / SAMPLES for row in side) for a in range(6)] for side in sides]
    curves = {
        k: [
            [fmean(pass_at_k(SAMPLES, row[a], k) for row in side) for a in range(6)]
            for side in sides
        ]
        for k in (8, 16)
    }
    spread = fmean(pstdev(side[:-1]) for side in means)
    mean, best = _range(means, alone=True), _range(curves[16], alone=True)
    return "\n".join(
        [
            "| annotators | 0 | 1 | 2 | 3 | 4 | 5 |",
            "|---|---|---|---|---|---|---|",
            f"| share of questions | {' | '.join(f'{100 * share:.0f}%' for share in shares)} |",
            "",
            f"One annotator alone is right {mean} of the time (mean@1; standard deviation within",
            f"a side {100 * spread:.0f} points) with pass@16 of {best}; the mixture of all has",
            f"mean@1 {_range(means)}, pass@8 {_range(curves[8])} and pass@16 {_range(curves[16])}.",
            "",
        ]
    )


def _range(values: list[list[float]], *, alone: bool = False) -> str:
    flat = [v for side in values for v in (side[:-1] if alone else side[-1:])]
    return f"{100 * min(flat):.0f}% to {100 * max(flat):.0f}%"


if __name__ == "__main__":
    main()

"""What a vote among the annotators themselves is worth, by the correlation of their gaps.

    python -m lab.benchmarks.hostile.annotators [--worlds 20] [--write docs/hostile-world.md]

A question gets 16 answers, each by an annotator who is drawn anew. A vote is for the result that
most different answers come to, as a store with ``values = "distinct"`` counts. No model takes part:
it is what a base model that imitates its annotators perfectly would have to vote with.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from dph.runs.presample.stores.store import Vote, vote
from dph.runs.presample.stores.values import Valued, distinct_agreement, valued

from dph.results.over_seeds import SeedMean, mean_over_seeds
from lab.benchmarks.marked_blocks import write_block
from lab.worlds.sql.domains import Database
from lab.worlds.sql.kind import CORRELATIONS
from lab.worlds.sql.question_sets import NOTHING, draw_any_questions, gold_sql
from lab.worlds.sql.questions import Question
from lab.worlds.sql.world import SQLWorld, design_world

ANSWERS = 16
QUESTIONS = 250
"""A world, about the databases of its tests."""


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, or put it on a page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=20, help="seeds from 0 [default: 20]")
    parser.add_argument("--write", type=Path, help="a page with the marks of `annotators`")
    arguments = parser.parse_args(words)
    table = "\n".join(lines(arguments.worlds)) + "\n"
    if arguments.write:
        write_block(arguments.write, "annotators", table)
    else:
        print(table, end="")


def lines(worlds: int) -> Iterator[str]:
    """A row for each correlation: means over worlds with 95% t-intervals, in per cent."""
    yield "| correlation | answers right | with a consensus | consensus right | right more often |"
    yield "|---:|---:|---:|---:|---:|"
    for correlation in CORRELATIONS.values():
        found = [vote_of(seed, correlation) for seed in range(worlds)]
        cells = (
            [v.answers_right for v in found],
            [v.share for v in found],
            [v.right or 0.0 for v in found],
            [(v.right or 0.0) - v.answers_right for v in found],
        )
        yield f"| {correlation:g} | {' | '.join(_cell(mean_over_seeds(c)) for c in cells)} |"


def vote_of(seed: int, correlation: float, *, questions: int = QUESTIONS) -> Vote:
    """The vote of a world's annotators on questions about the databases of its tests."""
    world = design_world(Path(), seed=seed, correlation=correlation)
    rng = Random(f"votes of annotators {seed}")
    databases = {database.name: database for database in world.in_domain + world.cross_domain}
    groups: dict[str, list[Valued]] = {}
    weights: dict[str, list[float]] = {}
    for question in draw_any_questions(list(databases.values()), questions, rng):
        texts, group = _answered(question, databases[question.domain.name], world, rng)
        groups[question.prompt] = group
        weights[question.prompt] = distinct_agreement([v.answer_class for v in group], texts)
    found = vote(groups, weights)
    assert found is not None
    return found


def _answered(
    question: Question, database: Database, world: SQLWorld, rng: Random
) -> tuple[list[str], list[Valued]]:
    """Answers, and what each is worth; results that say nothing are in no class."""
    texts = [rng.choice(world.annotators).answer(question, rng) for _ in range(ANSWERS)]
    results = [database.oracle(_statement(text)) for text in texts]
    numbers = {result: i for i, result in enumerate(dict.fromkeys(results))}
    classes = [None if result in NOTHING else numbers[result] for result in results]
    gold = database.oracle(gold_sql(question))
    return texts, valued(classes, [result == gold for result in results], answers=ANSWERS)


def _statement(answer: str) -> str:
    """The SQL of an answer: what begins with WITH or SELECT."""
    return answer[min(at for at in map(answer.find, ("WITH", "SELECT")) if at >= 0) :]


def _cell(found: SeedMean) -> str:
    return str(found.times(100))


if __name__ == "__main__":
    main()

"""Every set's runs against the first of them: the table's numbers and the curves' points."""

from collections.abc import Mapping, Sequence

from dph.runs.evaluate.comparison import ComparisonRow, compare
from dph.runs.evaluate.scores import SetScores


def compare_sets(
    scores: Mapping[str, Mapping[str, SetScores]], *, seed: int
) -> dict[str, list[ComparisonRow]]:
    """For each set greedy, mean and Pass@k of the runs that were evaluated on it, by run.

    The first run that has the set is what the others are compared with.

    Raises:
        DataError: runs were evaluated on different problems of a set.
    """
    names = list(dict.fromkeys(name for of_run in scores.values() for name in of_run))
    return {name: _compare_set(scores, name, seed) for name in names}


def curve_ks(samples: int) -> list[int]:
    """The k of a Pass@k curve: powers of two, and all samples.

    >>> curve_ks(16), curve_ks(10)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 10])
    """
    powers = [2**i for i in range(samples.bit_length())]
    return sorted({*powers, samples})


def table_ks(samples: int) -> list[int]:
    """The k that a table shows: the usual ones that fit, else all samples.

    >>> table_ks(16), table_ks(3)
    ([8, 16], [3])
    """
    return [k for k in (8, 16, 32, 64, 128) if k <= samples] or [samples]


def fewest_samples(scores: Sequence[SetScores]) -> int:
    """Samples of a problem that every run has."""
    return min(of_run.samples for of_run in scores)


def _compare_set(
    scores: Mapping[str, Mapping[str, SetScores]], name: str, seed: int
) -> list[ComparisonRow]:
    runs = {run: {name: sets[name]} for run, sets in scores.items() if name in sets}
    samples = fewest_samples([sets[name] for sets in runs.values()])
    ks = sorted({*curve_ks(samples), *table_ks(samples)})
    return compare(runs, None, ks, seed)

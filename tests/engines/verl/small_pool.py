"""A pool of the tiny model's stored answers."""

from dph.records import Problem
from engines.verl.rows import TEMPERATURE, acted, make_model, stored_samples
from small_pools import write_pool_of

STORED = 11


def write_small_pool(path, *, stored=STORED, answers=1, acts=False, **changes):
    """A pool of ``stored`` answers and two problems to explore."""
    samples = stored_samples(stored, seed=answers)
    problems = [
        Problem(problem_id=f"p{i}", prompt=f"w{i + 3} w9", answer={"answer": f"w{i}"})
        for i in range(2)
    ]
    return write_pool_of(
        make_model(),
        path,
        acted(samples) if acts else samples,
        explored=problems,
        **{"temperature": TEMPERATURE, **changes},
    )

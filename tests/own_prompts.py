"""A maker of prompts, as a user would write it."""

from dph.records import Problem


def doubled(train, rows, seed):
    """Every training prompt said twice."""
    return [
        Problem(problem_id=f"{seed}-{p.problem_id}", prompt=f"{p.prompt} {p.prompt}")
        for p in (*train, *rows)
    ]


def texts(train, rows, seed):  # noqa: ARG001
    return [problem.prompt for problem in train]


def forgotten(train, rows, seed):
    """Whoever wrote this forgot to return what it made."""
    doubled(train, rows, seed)


def broken(train, rows, seed):  # noqa: ARG001
    """It breaks while its first prompt is made, after it was called."""
    yield from ({}["city"] for _ in train)


def one_id(train, rows, seed):  # noqa: ARG001
    return [Problem(problem_id="same", prompt=p.prompt) for p in train]

"""A problem of each subject that others' engines grade with ours: SQL, maths, code."""

from contextlib import contextmanager

from dph import Problem, make_verifier
from dph.tasks.code_environment import code_environment
from dph.tasks.environments import EnvironmentVerifier, EpisodeLimits
from dph.tasks.sql.environment import sql_environment
from small_databases import make_shop

SUBJECTS = ("sql", "math", "code")
LIMITS = EpisodeLimits(seconds=20.0)
PROBLEMS = {
    "sql": Problem(
        problem_id="shop",
        prompt="Which cost more than 2?",
        answer={"database": "shop.sqlite", "gold_sql": "SELECT name FROM item WHERE price > 2"},
    ),
    "math": Problem(problem_id="half", prompt="What is 1 - 1/2?", answer={"answer": "1/2"}),
    "code": Problem(
        problem_id="double",
        prompt="Write double(n).",
        answer={
            "entry_point": "double",
            "cases": [{"args": [n], "returns": 2 * n} for n in range(4)],
            "visible": {"cases": [{"args": [1], "returns": 2}]},
        },
    ),
}
# Turns of a policy: a tool and its arguments, or the text that ends it.
RIGHT = {
    "sql": [
        ("query", {"sql": "SELECT * FROM item"}),
        ("nothing", {}),
        ("answer", {"sql": "SELECT name FROM item WHERE price >= 2.5"}),
    ],
    "math": [r"It is $\boxed{0.5}$."],
    "code": [
        ("check", {"program": "def double(n):\n    return n"}),
        ("submit", {"program": "def double(n):\n    return 2 * n"}),
    ],
}
WRONG = {
    "sql": [("answer", {"sql": "SELECT name FROM item"})],
    "math": [r"It is $\boxed{2}$."],
    "code": [("submit", {"program": "def double(n):\n    return 2"})],
}


@contextmanager
def grader(subject, directory):
    """The verifier of a subject: with its environment, where there is one."""
    if subject == "sql":
        make_shop(directory / "shop.sqlite")
        more = {"databases": directory, "workers": 1}
        environment = sql_environment(directory, limits=LIMITS)
    else:
        more = {"workers": 1}
        environment = code_environment(limits=LIMITS) if subject == "code" else None
    verifier = make_verifier(subject, **more)
    made = EnvironmentVerifier(environment, verifier) if environment else verifier
    with made:
        yield made

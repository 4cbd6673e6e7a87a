"""What a model is asked, by kind of row."""

from collections.abc import Callable, Mapping

from dph.corpus.synth.seeds import Seed

_FORM = """\
Answer in three parts and nothing else:
1. The task, in words that somebody who sees nothing else can work from.
2. One block of Python: a function that solves it, self-contained, with no input or output, by \
the standard library only.
3. One block of Python with at least five assertions about that function and nothing else, which \
cover ordinary and unusual inputs and want different values.
"""


def _functions(seed: Seed) -> str:
    return (
        "Here is a file of code:\n\n"
        f"```\n{seed.text}\n```\n\n"
        "Let it give you an idea for a small programming task of your own that a single function "
        f"solves.\n\n{_FORM}"
    )


def _instructions(seed: Seed) -> str:
    return (
        f"Here is a programming task:\n\n{seed.text}\n\n"
        "Make a harder task of it that can still be solved by one function: ask for one thing "
        "more, replace a general condition by a particular one, or make inputs possible that the "
        f"first solution would get wrong.\n\n{_FORM}"
    )


def _documentation(seed: Seed) -> str:
    return (
        f"Here is the documentation of a function:\n\n{seed.text}\n\n"
        "Think of a question that a programmer would ask to which this function is the answer, and "
        f"solve it by a function that calls {seed.uses}.\n\n{_FORM}"
    )


def _sql(seed: Seed) -> str:
    return (
        f"Here is a database:\n\n{seed.text}\n\n"
        "Write a question that a user of this database would ask, in words that do not name its "
        "columns, and then one block with the SQLite query that answers it. The result must hang "
        "on the question's conditions and must not be empty.\n\n"
        "Question: ..."
    )


FUNCTIONS, INSTRUCTIONS, DOCUMENTATION, SQL = "functions", "instructions", "documentation", "sql"
PROMPTS: Mapping[str, Callable[[Seed], str]] = {
    FUNCTIONS: _functions,
    INSTRUCTIONS: _instructions,
    DOCUMENTATION: _documentation,
    SQL: _sql,
}
"""By kind of row: ``functions`` from documents of code, ``instructions`` evolved from tasks,
``documentation`` from signatures and doc strings, ``sql`` from databases."""
VERSION = 1
"""Counts up when a prompt changes."""

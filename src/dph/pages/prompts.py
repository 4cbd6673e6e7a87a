"""What a model was asked, as one text, and as one line of a list."""

from dph.records import Problem

_LINE = 160


def prompt_text(problem: Problem) -> str:
    """The prompt as it was given; of a chat each message under its role.

    >>> prompt_text(Problem(problem_id="p", prompt=({"role": "user", "content": "2 + 2?"},)))
    '[user]\\n2 + 2?'
    """
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in problem.prompt)


def excerpt(problem: Problem | None) -> str:
    """The end of the question on one line: what is before it (a schema, examples) is often shared.

    >>> excerpt(Problem(problem_id="p", prompt="a b ->")), excerpt(None)
    ('a b ->', '')
    """
    if problem is None:
        return ""
    text = problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]
    line = " ".join(text[-4 * _LINE :].split())
    return line if len(line) <= _LINE else f"… {line[-_LINE:]}"

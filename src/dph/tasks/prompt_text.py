"""What a model was asked, as one text."""

from dph.records import Problem


def prompt_text(problem: Problem) -> str:
    r"""The prompt as it was given; of a chat each message under its role.

    >>> prompt_text(Problem(problem_id="p", prompt=({"role": "user", "content": "2 + 2?"},)))
    '[user]\n2 + 2?'
    """
    if isinstance(problem.prompt, str):
        return problem.prompt
    messages = (f"[{m.get('role', '')}]\n{m.get('content', '')}" for m in problem.prompt)
    return "\n\n".join(messages)

"""The letter task's verifier and style, as a user would write them: plain functions."""


def grade(response, problem):
    """Right when the response starts with one of the letters asked for."""
    return response[:1] != "" and response[:1] in problem.answer["answer"]


def grade_strictly(response, problem):
    return not isinstance(response, str) or problem is None


def bad_gold(response, problem):
    raise ValueError(f"no gold for {problem.problem_id}: {response}")


def style_of(text):
    return "short" if len(text.split()) < 2 else "long"

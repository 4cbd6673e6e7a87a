"""A verifier that a model without any skill satisfies half of the time."""


def grade(response, problem):
    """Right when the answer has an even number of characters."""
    return problem is not None and len(response) % 2 == 0

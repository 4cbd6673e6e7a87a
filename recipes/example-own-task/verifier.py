"""A user-defined verifier: full reward for the right number, half of it for a number next to it."""

from dph import Outcome, Problem, Verdict


def grade(response: str, problem: Problem) -> Verdict:
    """Compare the last word of the response with the problem's ``answer``."""
    words = response.split()
    if not words:
        return Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="there is no word")
    word, answer = words[-1].strip("."), problem.answer["answer"]
    if word == answer:
        return Verdict(outcome=Outcome.CORRECT, reward=1.0)
    near = word.isascii() and word.isdigit() and abs(int(word[:9]) - int(answer)) == 1
    reward = 0.5 if near else 0.0
    return Verdict(outcome=Outcome.WRONG, reward=reward, reason=f"{word!r} is not {answer!r}")

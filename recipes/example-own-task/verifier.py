"""A verifier of one's own: half the reward for the right letters, all of it for the right order."""

from dph import Outcome, Problem, Verdict


def grade(response: str, problem: Problem) -> Verdict:
    """Compare the last word of the response with the problem's ``answer``."""
    words = response.split()
    if not words:
        return Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="there is no word")
    word, answer = words[-1].lower().strip(".!\"'"), problem.answer["answer"]
    if word == answer:
        return Verdict(outcome=Outcome.CORRECT, reward=1.0)
    same_letters = sorted(word) == sorted(answer)
    reward = 0.5 if same_letters else 0.0
    return Verdict(outcome=Outcome.WRONG, reward=reward, reason=f"{word!r} is not {answer!r}")

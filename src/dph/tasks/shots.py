"""Solved examples before a question: the same beginning for every prompt of a recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dph._base.randomness import generator
from dph.errors import DataError
from dph.records import Problem

TEMPLATE = "{prompt}\n{answer}\n\n"


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Shots:
    r"""Examples, and how they are written before a question.

    A text prompt follows the examples as ``template`` writes them, and ends where its own answer
    would begin. In a chat each example is a message of the user and one of the assistant.

    >>> shots = Shots((Example("1 + 1", "2"),), "{prompt} = {answer}\n")
    >>> shots.before(Problem(problem_id="p", prompt="2 + 3"), chat=False).prompt
    '1 + 1 = 2\n2 + 3 ='
    """

    examples: tuple[Example, ...]
    template: str = TEMPLATE

    def before(self, problem: Problem, *, chat: bool) -> Problem:
        """The problem with the examples before its prompt; one that has them stays as it is."""
        prompt = problem.prompt
        if isinstance(prompt, str) and not chat:
            return replace(problem, prompt=self._text(prompt))
        given = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
        return replace(problem, prompt=self._messages(given))

    def _text(self, prompt: str) -> str:
        beginning = "".join(
            self.template.replace("{prompt}", each.prompt).replace("{answer}", each.answer)
            for each in self.examples
        )
        if prompt.startswith(beginning):
            return prompt
        asked, _, _ = self.template.partition("{answer}")
        # A blank before the answer is part of its first token.
        return beginning + asked.replace("{prompt}", prompt).rstrip(" ")

    def _messages(self, given: Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
        shown = tuple(
            {"role": role, "content": text}
            for each in self.examples
            for role, text in (("user", each.prompt), ("assistant", each.answer))
        )
        first = 1 if given[0]["role"] == "system" else 0
        if tuple(given[first : first + len(shown)]) == shown:
            return tuple(given)
        return (*given[:first], *shown, *given[first:])


def drawn_examples(
    problems: Sequence[Problem], *, count: int | None, answer: str, seed: int, where: str
) -> tuple[list[Problem], tuple[Example, ...]]:
    """``count`` problems in the order of their draw, or all in theirs, and what they show.

    Raises:
        DataError: there are fewer, one is a chat, or one has no field ``answer``; ``where`` names
            the file.
    """
    if count is not None and count > len(problems):
        raise DataError(f"data.shots: {count} examples are needed, {where} has {len(problems)}")
    chosen = list(problems)
    if count is not None:
        order = generator(seed, "shots").permutation(len(problems))[:count]
        chosen = [problems[index] for index in order]
    return chosen, tuple(_example(problem, answer, where) for problem in chosen)


def _example(problem: Problem, answer: str, where: str) -> Example:
    value = problem.answer.get(answer)
    if value is None:
        raise DataError(
            f"data.shots: problem {problem.problem_id!r} of {where} has no {answer!r}; its fields "
            f"are {sorted(problem.answer)} (data.shots.answer names the one to show)"
        )
    if not isinstance(problem.prompt, str):
        raise DataError(
            f"data.shots: problem {problem.problem_id!r} of {where} is a chat; an example must be "
            f"text"
        )
    return Example(problem.prompt, str(value))

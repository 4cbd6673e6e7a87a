"""The words of prompts: which are new, which are rare, and prompts with others in their place."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dph.records import Problem

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\W\d_]\w*")
"""Words that are replaced: numbers stay as they are."""
RARE = 0.1
"""A word is rare when fewer than this share of the prompts have it: what a question is about, and
not what all questions are made of."""
REPLACED = 0.5
"""Chance of a rare word to be replaced."""
GOLDS = ("answer", "gold_sql", "gold")
"""Fields that say what is right: not known any more of a prompt with other words."""


def prompt_texts(problem: Problem) -> tuple[str, ...]:
    """The texts of a prompt, message by message."""
    if isinstance(problem.prompt, str):
        return (problem.prompt,)
    return tuple(message["content"] for message in problem.prompt)


def words_of(problem: Problem) -> frozenset[str]:
    """The words of a prompt, in lower case."""
    return frozenset(
        word for text in prompt_texts(problem) for word in _WORD.findall(text.casefold())
    )


def with_new_words(problems: Iterable[Problem], known: Sequence[Problem]) -> list[Problem]:
    """The problems with a word that no prompt of ``known`` has."""
    seen = frozenset[str]().union(*map(words_of, known))
    return [problem for problem in problems if not words_of(problem) <= seen]


def rare_words(problems: Sequence[Problem]) -> list[str]:
    """Words, but no numbers, that fewer than ``RARE`` of the prompts have; sorted."""
    seen = Counter(word for problem in problems for word in words_of(problem))
    few = RARE * len(problems)
    return sorted(word for word, count in seen.items() if count < few and _NAME.fullmatch(word))


def recombined(problems: Sequence[Problem], count: int, rng: np.random.Generator) -> list[Problem]:
    """New prompts: one of ``problems`` each, in which rare words became other rare words of them.

    A word becomes the same other word wherever it stands in a prompt. What says which answer is
    right (``GOLDS``) is left out, the rest of the row (a database, say) is kept. In a chat only
    the last message changes.
    """
    rare = rare_words(problems)
    known = frozenset(rare)
    made = []
    for index in range(count):
        base = problems[int(rng.integers(len(problems)))]
        own = sorted(words_of(base) & known)
        change = {w: rare[int(rng.integers(len(rare)))] for w in own if rng.random() < REPLACED}
        made.append(
            replace(
                base,
                problem_id=f"recombined-{index:06d}",
                prompt=_with_words(base.prompt, change),
                answer={k: v for k, v in base.answer.items() if k not in GOLDS},
            )
        )
    return made


def _with_words(prompt: Any, change: dict[str, str]) -> Any:
    if isinstance(prompt, str):
        return _WORD.sub(lambda found: change.get(found[0].casefold(), found[0]), prompt)
    *before, last = prompt
    return (*before, {**last, "content": _with_words(last["content"], change)})


def same_prompts(problems: Sequence[Problem], others: Sequence[Problem]) -> list[Problem]:
    """Those of ``problems`` whose prompt ``others`` have, too; blanks and system messages aside."""
    taken: Collection[tuple[str, ...]] = {_spelling(problem) for problem in others}
    return [problem for problem in problems if _spelling(problem) in taken]


def _spelling(problem: Problem) -> tuple[str, ...]:
    if isinstance(problem.prompt, str):
        return (" ".join(problem.prompt.split()),)
    return tuple(
        " ".join(message["content"].split())
        for message in problem.prompt
        if message["role"] != "system"
    )

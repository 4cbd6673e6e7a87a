"""Prompts without labels: read and chosen; those of a test only if it is allowed by name."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dph.errors import DataError, SettingsError
from dph.recipe import SelfConsistencySettings
from dph.records import Problem
from dph.tasks.problems import load_problems

_WORD = re.compile(r"\w+")


def words_of(problem: Problem) -> frozenset[str]:
    """The words of a prompt, in lower case."""
    prompt = problem.prompt
    texts = [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
    return frozenset(word for text in texts for word in _WORD.findall(text.casefold()))


def with_new_words(problems: Iterable[Problem], known: Sequence[Problem]) -> list[Problem]:
    """The problems with a word that no prompt of ``known`` has."""
    seen = frozenset[str]().union(*map(words_of, known))
    return [problem for problem in problems if not words_of(problem) <= seen]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Prompts that a recipe already has: training problems and evaluation sets."""

    train: Sequence[Problem]
    sets: Mapping[str, Sequence[Problem]]


def file_prompts(settings: SelfConsistencySettings, known: Known) -> tuple[Problem, ...]:
    """The rows of ``file`` that ``only`` and ``novel`` leave."""
    settings.require_file()
    assert settings.file is not None
    chosen = _only_rows(load_problems(settings.file), settings)
    _require_no_tests(chosen, settings, known)
    if settings.novel:
        chosen = with_new_words(chosen, known.train)
    if not chosen:
        new = " with a word that no training prompt has (novel)" * settings.novel
        raise DataError(f"self_consistency: no prompt of {settings.file} is left{new}")
    return tuple(chosen)


def require_unlabelled(problems: Sequence[Problem], *, per_step: int) -> None:
    """Refuse fewer unlabelled prompts than a step takes."""
    if len(problems) < per_step:
        raise SettingsError(
            f"self_consistency.problems_per_step = {per_step}, but there are only "
            f"{len(problems)} unlabelled prompts"
        )


def _only_rows(rows: Sequence[Problem], settings: SelfConsistencySettings) -> list[Problem]:
    """The rows whose columns have the values that ``only`` asks for."""
    chosen = list(rows)
    for column, value in settings.only.items():
        if not any(column in row.answer for row in rows):
            raise DataError(f"self_consistency.only: no row has the column {column!r}")
        chosen = [row for row in chosen if row.answer.get(column) == value]
        if not chosen:
            found = sorted({repr(row.answer.get(column)) for row in rows})[:5]
            raise DataError(
                f"self_consistency.only: no row left has {column} = {value!r}; it is "
                f"{', '.join(found)} ..."
            )
    return chosen


def _require_no_tests(
    prompts: Sequence[Problem], settings: SelfConsistencySettings, known: Known
) -> None:
    """Refuse prompts of evaluation sets, which would be learnt by heart before they are asked."""
    for name in settings.allow_overlap:
        if name not in known.sets:
            sets = ", ".join(known.sets) or "none"
            raise SettingsError(
                f"self_consistency.allow_overlap: there is no set {name!r}; there is: {sets}"
            )
    for name, problems in known.sets.items():
        if name in settings.allow_overlap:
            continue
        if same := same_prompts(prompts, problems):
            raise DataError(
                f"self_consistency: {len(same)} of {len(prompts)} prompts are prompts of the "
                f"evaluation set {name!r}, the first is {same[0].problem_id!r}: leave them out, or "
                "name the set in self_consistency.allow_overlap if this is intended"
            )

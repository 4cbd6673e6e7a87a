"""The prompts of a store: read, chosen or made; those of a test only if it is allowed by name."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from dph._base.import_path import is_import_path, load_callable
from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.recipe import StoreSettings
from dph.recipe.stores import PromptFileSettings
from dph.records import Problem
from dph.tasks.problems import load_problems

# The words of prompts: which are new, which are rare, and prompts with others in their place.

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


MADE_FOR_ONE = 3
"""Prompts that are recombined for each that is wanted, where some will be left out as not new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Prompts that a recipe already has: training problems, evaluation sets, the user's modules."""

    train: Sequence[Problem]
    sets: Mapping[str, Sequence[Problem]]
    modules: Sequence[Path] = ()


def store_prompts(
    key: str, store: StoreSettings, known: Known, *, seed: int
) -> tuple[Problem, ...]:
    """The prompts of a store; ``key`` (``stores.broad``) names it in messages.

    ``beginning`` is one prompt without text, or ``limit`` of them: the caller encodes it as the
    beginning-of-sequence token.

    Raises:
        DataError: the file is missing or malformed, no prompt is left, or some are those of an
            evaluation set that is not named in ``allow_overlap``.
        SettingsError: a set of ``allow_overlap`` is unknown, or a maker cannot be used.
    """
    if store.prompts == "beginning":
        return tuple(
            Problem(problem_id=f"beginning-{index:06d}", prompt="")
            for index in range(store.limit or 1)
        )
    if store.prompts == "unlabelled":
        return spread(file_prompts(key, store, known), store.limit)
    if store.prompts == "train":
        chosen: Sequence[Problem] = known.train
    elif store.prompts == "recombined":
        chosen = _recombined(key, store, known, seed)
    else:
        chosen = _made(key, store, known, seed)
        require_no_tests(key, chosen, store, known)
    if store.novel:
        chosen = with_new_words(chosen, known.train)
    if not chosen:
        raise DataError(f"{key}: no prompt is left{_and_new(store)}")
    return spread(chosen, store.limit)


def spread(prompts: Sequence[Problem], limit: int | None) -> tuple[Problem, ...]:
    """At most ``limit`` of ``prompts``, evenly from beginning to end: files are often in order.

    >>> [p.problem_id for p in spread([Problem(problem_id=c, prompt=c) for c in "abcdef"], 3)]
    ['a', 'c', 'e']
    """
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    return tuple(prompts[index * len(prompts) // limit] for index in range(limit))


def file_prompts(key: str, settings: PromptFileSettings, known: Known) -> tuple[Problem, ...]:
    """The rows of ``file`` that ``only`` and ``novel`` leave.

    Raises:
        DataError: as ``store_prompts``.
        SettingsError: ``file`` is not named, or a set of ``allow_overlap`` is unknown.
    """
    if settings.file is None:
        raise SettingsError(f"{key}.file is missing: a file of prompts without answers")
    chosen = only_rows(key, load_problems(settings.file), settings)
    require_no_tests(key, chosen, settings, known)
    if settings.novel:
        chosen = with_new_words(chosen, known.train)
    if not chosen:
        raise DataError(f"{key}: no prompt of {settings.file} is left{_and_new(settings)}")
    return tuple(chosen)


def require_unlabelled(problems: Sequence[Problem], *, per_step: int) -> None:
    """Refuse fewer unlabelled prompts than a step takes.

    Raises:
        SettingsError: there are fewer.
    """
    if len(problems) < per_step:
        raise SettingsError(
            f"self_consistency.problems_per_step = {per_step}, but there are only "
            f"{len(problems)} unlabelled prompts"
        )


def only_rows(key: str, rows: Sequence[Problem], settings: PromptFileSettings) -> list[Problem]:
    """The rows whose columns have the values that ``only`` asks for.

    Raises:
        DataError: no row has such a column, or none has the value.
    """
    chosen = list(rows)
    for column, value in settings.only.items():
        if not any(column in row.answer for row in rows):
            raise DataError(f"{key}.only: no row has the column {column!r}")
        chosen = [row for row in chosen if row.answer.get(column) == value]
        if not chosen:
            found = sorted({repr(row.answer.get(column)) for row in rows})[:5]
            raise DataError(
                f"{key}.only: no row left has {column} = {value!r}; it is {', '.join(found)} ..."
            )
    return chosen


def require_no_tests(
    key: str, prompts: Sequence[Problem], settings: PromptFileSettings | None, known: Known
) -> None:
    """Refuse prompts of evaluation sets, which would be learnt by heart before they are asked.

    Without ``settings`` nothing can be allowed.

    Raises:
        DataError: names the set, how many there are, and the first.
        SettingsError: ``allow_overlap`` names a set that the recipe does not have.
    """
    overlapping = settings.allow_overlap if settings else ()
    for name in overlapping:
        if name not in known.sets:
            sets = ", ".join(known.sets) or "none"
            raise SettingsError(f"{key}.allow_overlap: there is no set {name!r}; there is: {sets}")
    for name, problems in known.sets.items():
        if name in overlapping:
            continue
        if same := same_prompts(prompts, problems):
            allowed = f", or name the set in {key}.allow_overlap if this is intended"
            raise DataError(
                f"{key}: {len(same)} of {len(prompts)} prompts are prompts of the evaluation set "
                f"{name!r}, the first is {same[0].problem_id!r}: leave them out"
                f"{allowed if settings else ''}"
            )


def _recombined(key: str, store: StoreSettings, known: Known, seed: int) -> list[Problem]:
    """As many as ``limit``, or as there are prompts to make them from; no tests among them."""
    rows = only_rows(key, load_problems(store.file), store) if store.file else []
    require_no_tests(key, rows, store, known)
    parts = [*known.train, *rows]
    wanted = store.limit or len(parts)
    made = recombined(parts, MADE_FOR_ONE * wanted, generator(seed, "recombined"))
    tests = [p for name, problems in known.sets.items() for p in problems]
    taken = {p.problem_id for p in same_prompts(made, tests)}
    left = [problem for problem in made if problem.problem_id not in taken]
    return with_new_words(left, known.train)[:wanted] if store.novel else left[:wanted]


def _made(key: str, store: StoreSettings, known: Known, seed: int) -> list[Problem]:
    if not is_import_path(store.prompts):
        raise SettingsError(f"{key}.prompts: {store.prompts!r} is not a way to make prompts")
    rows = only_rows(key, load_problems(store.file), store) if store.file else []
    maker = load_callable(store.prompts, known.modules)
    return made_problems(f"{key}.prompts: {store.prompts!r}", maker, known.train, rows, seed)


def made_problems(
    named: str,
    maker: Callable[..., Any],
    train: Sequence[Problem],
    rows: Sequence[Problem],
    seed: int,
) -> list[Problem]:
    """The problems that a user's function makes of training problems, others and a seed.

    Raises:
        SettingsError: it raises, returns something else, or two have one id; says who was
            ``named``, and where.
    """
    try:
        returned = maker(tuple(train), tuple(rows), seed)
        made = list(returned) if isinstance(returned, Iterable) else [returned]
    except Exception as error:
        # Whatever the user's own code raises, they have to hear of it as a setting, and where.
        place = extract_tb(error.__traceback__)[-1]
        raise SettingsError(
            f"{named} raised {type(error).__name__}: {error} "
            f"({Path(place.filename).name}, line {place.lineno})"
        ) from error
    wrong = [problem for problem in made if not isinstance(problem, Problem)]
    if wrong:
        raise SettingsError(f"{named} must return Problems, got {wrong[0]!r:.80}")
    (most, times), *_ = Counter(p.problem_id for p in made).most_common(1) or [("", 0)]
    if times > 1:
        raise SettingsError(f"{named} gave the id {most!r} {times} times")
    return made


def _and_new(settings: PromptFileSettings) -> str:
    return " with a word that no training prompt has (novel)" if settings.novel else ""

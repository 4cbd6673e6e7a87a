"""Prompts of a run: examples before each question, tokens, and prompts without labels."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.model.prompts import TurnEncoder, encode_prompt, set_template_variables, wants_chat
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import check_requests
from dph.recipe import DataSettings, Recipe, SelfConsistencySettings
from dph.records import Problem
from dph.tasks.problems import load_problems, problems_fingerprint

_WORD = re.compile(r"\w+")


def texts_of(problem: Problem) -> list[str]:
    """The prompt of a problem, or the contents of its messages."""
    prompt = problem.prompt
    return [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]


def words_of(problem: Problem) -> frozenset[str]:
    return frozenset(_WORD.findall(" ".join(texts_of(problem)).casefold()))


def with_new_words(problems: Iterable[Problem], known: Sequence[Problem]) -> list[Problem]:
    """The problems with a word that no prompt of ``known`` has."""
    seen = frozenset[str]().union(*map(words_of, known))
    return [problem for problem in problems if not words_of(problem) <= seen]


def same_prompts(problems: Sequence[Problem], others: Sequence[Problem]) -> list[Problem]:
    """The problems whose prompt ``others`` have too; blanks and system messages do not count."""
    taken = {_spelling(problem) for problem in others}
    return [problem for problem in problems if _spelling(problem) in taken]


def _spelling(problem: Problem) -> tuple[str, ...]:
    prompt = problem.prompt
    given = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return tuple(" ".join(m["content"].split()) for m in given if m["role"] != "system")


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
        """The problem with the examples before its prompt, unless it has them already."""
        prompt = problem.prompt
        if isinstance(prompt, str) and not chat:
            return replace(problem, prompt=self._text(prompt))
        given = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
        return replace(problem, prompt=self._messages(given))

    def _text(self, prompt: str) -> str:
        before, _, rest = self.template.partition("{prompt}")
        between, _, after = rest.partition("{answer}")
        beginning = "".join(
            f"{before}{each.prompt}{between}{each.answer}{after}" for each in self.examples
        )
        if prompt.startswith(beginning):
            return prompt
        # A blank before the answer is part of its first token.
        return beginning + f"{before}{prompt}{between}".rstrip(" ")

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


def recipe_shots(
    recipe: Recipe, train: Sequence[Problem]
) -> tuple[Shots | None, tuple[Problem, ...]]:
    """The examples, if the recipe has some, and the training problems that are not among them."""
    settings, data = recipe.data.shots, recipe.data
    if settings is None:
        return None, tuple(train)
    if data.chat is True and settings.template is not None:
        raise SettingsError(
            "data.shots.template is for plain prompts; in a chat (data.chat) each example is a "
            "message of the user and one of the assistant"
        )
    file, count = settings.file, settings.count
    chosen = list(train) if file is None else load_problems(file, columns=data.columns)
    where = str(file or data.train)
    if count is not None:
        if count > len(chosen):
            raise DataError(f"data.shots: {count} examples are needed, {where} has {len(chosen)}")
        order = generator(settings.seed, "shots").permutation(len(chosen))[:count]
        chosen = [chosen[index] for index in order]
    examples = tuple(_example(problem, settings.answer, where) for problem in chosen)
    shown = {each.problem_id for each in same_prompts(train, chosen)}
    left = tuple(problem for problem in train if problem.problem_id not in shown)
    return Shots(examples, settings.template or TEMPLATE), left


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


def require_no_shown_test(
    shots: Shots | None, sets: Iterable[tuple[str, Sequence[Problem]]]
) -> None:
    """Refuse a test problem among the examples, whose answer would precede every question."""
    if shots is None:
        return
    shown = [Problem(problem_id=each.prompt, prompt=each.prompt) for each in shots.examples]
    for name, problems in sets:
        if same := same_prompts(problems, shown):
            raise DataError(
                f"data.shots: problem {same[0].problem_id!r} of the evaluation set {name!r} is "
                "among the examples: take them from other problems, or draw by another "
                "data.shots.seed"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrompts:
    """A tokenizer, and the settings of ``[data]`` by which a prompt becomes tokens.

    ``chat``: texts go through the chat template.
    """

    tokenizer: PreTrainedTokenizerBase
    chat: bool
    system_prompt: str
    shots: Shots | None = None

    @classmethod
    def of(cls, data: DataSettings, tokenizer: PreTrainedTokenizerBase) -> "RunPrompts":
        """The prompts of ``[data]``; ``data.template`` is set in the tokenizer."""
        set_template_variables(tokenizer, data.template)
        chat = wants_chat(tokenizer, data.chat)
        return cls(tokenizer=tokenizer, chat=chat, system_prompt=data.system_prompt)

    def asked(self, problem: Problem) -> Problem:
        """The problem with the recipe's examples, if there are any, before its prompt."""
        if self.shots is None or not problem.prompt:
            return problem
        return self.shots.before(problem, chat=self.chat)

    def fingerprint(self, problems: Sequence[Problem]) -> str:
        """The fingerprint of problems with their examples."""
        return problems_fingerprint(list(map(self.asked, problems)))

    def turns(self, tools: Sequence[Mapping[str, Any]]) -> TurnEncoder:
        """Encoder of prompts and results in an environment with these tools."""
        return TurnEncoder(self.tokenizer, tools, chat=self.chat, system_prompt=self.system_prompt)

    def encode(self, problem: Problem) -> tuple[int, ...]:
        """The tokens of the prompt with its examples."""
        return encode_prompt(
            self.tokenizer,
            self.asked(problem).prompt,
            chat=self.chat,
            system_prompt=self.system_prompt,
        )

    def require_fit(
        self, config: PreTrainedConfig, problems: Sequence[Problem], *, max_tokens: int
    ) -> None:
        """Refuse prompts that cannot be sampled, before anything is written."""
        requests = (
            SampleRequest(problem_id=p.problem_id, prompt_ids=self.encode(p), samples=1)
            for p in problems
        )
        check_requests(
            config, requests, SamplingParameters(max_tokens=max_tokens, stop_token_ids=())
        )


Sets = Mapping[str, Sequence[Problem]]
"""The problems of evaluation sets, by name."""


def file_prompts(
    settings: SelfConsistencySettings, *, train: Sequence[Problem], sets: Sets
) -> tuple[Problem, ...]:
    """The prompts of ``file`` that ``only`` and ``novel`` leave, none of them in ``sets``."""
    settings.require_file()
    assert settings.file is not None
    chosen = _only_rows(load_problems(settings.file), settings)
    _require_no_tests(chosen, settings, sets)
    if settings.novel:
        chosen = with_new_words(chosen, train)
    if not chosen:
        new = " with a word that no training prompt has (novel)" * settings.novel
        raise DataError(f"self_consistency: no prompt of {settings.file} is left{new}")
    return tuple(chosen)


def require_unlabelled(problems: Sequence[Problem], *, per_step: int) -> None:
    if len(problems) < per_step:
        raise SettingsError(
            f"self_consistency.problems_per_step = {per_step}, but there are only "
            f"{len(problems)} unlabelled prompts"
        )


def _only_rows(rows: Sequence[Problem], settings: SelfConsistencySettings) -> list[Problem]:
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
    prompts: Sequence[Problem], settings: SelfConsistencySettings, sets: Sets
) -> None:
    """Refuse prompts of evaluation sets, unless ``allow_overlap`` names the set."""
    for name in settings.allow_overlap:
        if name not in sets:
            names = ", ".join(sets) or "none"
            raise SettingsError(
                f"self_consistency.allow_overlap: there is no set {name!r}; there is: {names}"
            )
    for name, problems in sets.items():
        if name in settings.allow_overlap:
            continue
        if same := same_prompts(prompts, problems):
            raise DataError(
                f"self_consistency: {len(same)} of {len(prompts)} prompts are prompts of the "
                f"evaluation set {name!r}, the first is {same[0].problem_id!r}: leave them out, or "
                "name the set in self_consistency.allow_overlap if this is intended"
            )

"""Prompts of a run: few-shot examples, tokenization, and unlabelled prompts."""

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
    """Problems with a word that is in no prompt of ``known``."""
    seen = frozenset[str]().union(*map(words_of, known))
    return [problem for problem in problems if not words_of(problem) <= seen]


def same_prompts(problems: Sequence[Problem], others: Sequence[Problem]) -> list[Problem]:
    """Problems whose prompt is also in ``others``, up to whitespace and system messages."""
    taken = {_prompt_key(problem) for problem in others}
    return [problem for problem in problems if _prompt_key(problem) in taken]


def _prompt_key(problem: Problem) -> tuple[str, ...]:
    prompt = problem.prompt
    given = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return tuple(" ".join(m["content"].split()) for m in given if m["role"] != "system")


TEMPLATE = "{prompt}\n{answer}\n\n"


@dataclass(frozen=True, slots=True)
class Example:
    """A few-shot example: a question and its answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Shots:
    r"""Few-shot examples, and the template that formats them.

    In a text prompt, the question follows the examples in the same format and ends where its
    answer would begin. In a chat, each example is a user message and an assistant message.

    >>> shots = Shots((Example("1 + 1", "2"),), "{prompt} = {answer}\n")
    >>> shots.before(Problem(problem_id="p", prompt="2 + 3"), chat=False).prompt
    '1 + 1 = 2\n2 + 3 ='
    """

    examples: tuple[Example, ...]
    template: str = TEMPLATE

    def before(self, problem: Problem, *, chat: bool) -> Problem:
        """Put the examples before the problem's prompt, unless it already begins with them."""
        prompt = problem.prompt
        if isinstance(prompt, str) and not chat:
            before, _, rest = self.template.partition("{prompt}")
            between, _, after = rest.partition("{answer}")
            beginning = "".join(
                f"{before}{each.prompt}{between}{each.answer}{after}" for each in self.examples
            )
            if prompt.startswith(beginning):
                return problem
            # A space before the answer is part of the answer's first token.
            return replace(problem, prompt=beginning + f"{before}{prompt}{between}".rstrip(" "))
        given = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else tuple(prompt)
        shown = tuple(
            {"role": role, "content": text}
            for each in self.examples
            for role, text in (("user", each.prompt), ("assistant", each.answer))
        )
        first = 1 if given[0]["role"] == "system" else 0
        if given[first : first + len(shown)] != shown:
            given = (*given[:first], *shown, *given[first:])
        return replace(problem, prompt=given)


def recipe_shots(
    recipe: Recipe, train: Sequence[Problem]
) -> tuple[Shots | None, tuple[Problem, ...]]:
    """The recipe's few-shot examples, if any, and the training problems not used as examples."""
    settings, data = recipe.data.shots, recipe.data
    if settings is None:
        return None, tuple(train)
    if data.chat is True and settings.template is not None:
        raise SettingsError(
            "data.shots.template is for plain prompts; in a chat (data.chat) each example is a "
            "user message and an assistant message"
        )
    file, count = settings.file, settings.count
    chosen = list(train) if file is None else load_problems(file, columns=data.columns)
    where = str(file or data.train)
    if count is not None:
        if count > len(chosen):
            raise DataError(f"data.shots: {count} examples needed, but {where} has {len(chosen)}")
        order = generator(settings.seed, "shots").permutation(len(chosen))[:count]
        chosen = [chosen[index] for index in order]
    examples = []
    for problem in chosen:
        value, name = problem.answer.get(settings.answer), problem.problem_id
        if value is None:
            raise DataError(
                f"data.shots: problem {name!r} of {where} has no {settings.answer!r}; its fields "
                f"are {sorted(problem.answer)} (data.shots.answer names the one to show)"
            )
        if not isinstance(problem.prompt, str):
            raise DataError(
                f"data.shots: problem {name!r} of {where} is a chat; an example must be text"
            )
        examples.append(Example(problem.prompt, str(value)))
    shown = {each.problem_id for each in same_prompts(train, chosen)}
    left = tuple(problem for problem in train if problem.problem_id not in shown)
    return Shots(tuple(examples), settings.template or TEMPLATE), left


def require_no_shown_test(
    shots: Shots | None, sets: Iterable[tuple[str, Sequence[Problem]]]
) -> None:
    """Refuse test problems as examples, because every prompt would show their answers."""
    if shots is None:
        return
    shown = [Problem(problem_id=each.prompt, prompt=each.prompt) for each in shots.examples]
    for name, problems in sets:
        if same := same_prompts(problems, shown):
            raise DataError(
                f"data.shots: problem {same[0].problem_id!r} of the evaluation set {name!r} is "
                "among the examples: take the examples from other problems, or change "
                "data.shots.seed"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrompts:
    """A tokenizer, and the ``[data]`` settings that decide how a prompt is tokenized.

    ``chat``: whether texts go through the chat template.
    """

    tokenizer: PreTrainedTokenizerBase
    chat: bool
    system_prompt: str
    shots: Shots | None = None

    @classmethod
    def of(cls, data: DataSettings, tokenizer: PreTrainedTokenizerBase) -> "RunPrompts":
        """Read ``[data]``; ``data.template`` is set on ``tokenizer`` itself."""
        set_template_variables(tokenizer, data.template)
        chat = wants_chat(tokenizer, data.chat)
        return cls(tokenizer=tokenizer, chat=chat, system_prompt=data.system_prompt)

    def asked(self, problem: Problem) -> Problem:
        """Put the recipe's few-shot examples, if any, before the problem's prompt."""
        if self.shots is None or not problem.prompt:
            return problem
        return self.shots.before(problem, chat=self.chat)

    def fingerprint(self, problems: Sequence[Problem]) -> str:
        """Fingerprint of the problems, including their few-shot examples."""
        return problems_fingerprint(list(map(self.asked, problems)))

    def turns(self, tools: Sequence[Mapping[str, Any]]) -> TurnEncoder:
        """Encoder of prompts and tool results for an environment with these tools."""
        return TurnEncoder(self.tokenizer, tools, chat=self.chat, system_prompt=self.system_prompt)

    def encode(self, problem: Problem) -> tuple[int, ...]:
        """Token ids of the prompt, including its examples."""
        return encode_prompt(
            self.tokenizer,
            self.asked(problem).prompt,
            chat=self.chat,
            system_prompt=self.system_prompt,
        )

    def require_fit(
        self, config: PreTrainedConfig, problems: Sequence[Problem], *, max_tokens: int
    ) -> None:
        """Refuse prompts that the model cannot sample from, before anything is written."""
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
    """Prompts of ``file`` selected by ``only`` and ``novel``; refuse any that are in ``sets``."""
    settings.require_file()
    assert settings.file is not None
    rows = chosen = list(load_problems(settings.file))
    for column, value in settings.only.items():
        if not any(column in row.answer for row in rows):
            raise DataError(f"self_consistency.only: no row has the column {column!r}")
        chosen = [row for row in chosen if row.answer.get(column) == value]
        if not chosen:
            found = sorted({repr(row.answer.get(column)) for row in rows})[:5]
            raise DataError(
                f"self_consistency.only: no remaining row has {column} = {value!r}; found "
                f"{', '.join(found)} ..."
            )
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


def _require_no_tests(
    prompts: Sequence[Problem], settings: SelfConsistencySettings, sets: Sets
) -> None:
    """Refuse prompts of evaluation sets, unless ``allow_overlap`` names the set."""
    for name in settings.allow_overlap:
        if name not in sets:
            names = ", ".join(sets) or "none"
            raise SettingsError(
                f"self_consistency.allow_overlap: there is no set {name!r}; the sets are: {names}"
            )
    for name, problems in sets.items():
        if name not in settings.allow_overlap and (same := same_prompts(prompts, problems)):
            raise DataError(
                f"self_consistency: {len(same)} of {len(prompts)} prompts are also in the "
                f"evaluation set {name!r}, for example {same[0].problem_id!r}: remove them, or "
                "name the set in self_consistency.allow_overlap if this is intended"
            )

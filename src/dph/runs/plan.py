"""The plan of a run: every artefact that it makes, and what each of them is made from."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from dph.errors import DataError
from dph.model.hub import model_directory, problems_file, resolve_names
from dph.model.loading import load_config, load_tokenizer, on_this_device, require_usable
from dph.model.prompts import TurnEncoder, encode_prompt, set_template_variables, wants_chat
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import check_requests
from dph.recipe import Recipe
from dph.recipe.aliases import refuse_stores
from dph.recipe.objective import AnchorSettings
from dph.recipe.tables import SelfConsistencySettings
from dph.records import Problem
from dph.runs.directory import RunDirectory
from dph.runs.presample.manifest import Rule, ValueSource
from dph.runs.task import SetProblems, Shots, recipe_shots, require_no_shown_test, run_verifier
from dph.runs.training_digest import TrainingKey
from dph.tasks.problems import load_problems, problems_fingerprint
from dph.tasks.styles import make_style
from dph.tasks.verifiers.base import Verifier, verifier_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrompts:
    """A tokenizer, and the settings of ``[data]`` that say how a prompt becomes tokens.

    Attributes:
        chat: whether texts go through the chat template.
        system_prompt: before every chat.
        shots: the recipe's examples before each question, if there are any.
    """

    tokenizer: PreTrainedTokenizerBase
    chat: bool
    system_prompt: str
    shots: Shots | None = None

    def asked(self, problem: Problem) -> Problem:
        """The problem as the model is asked it: behind the recipe's examples, if there are any."""
        if self.shots is None or not problem.prompt:
            return problem
        return self.shots.before(problem, chat=self.chat)

    def fingerprint(self, problems: Sequence[Problem]) -> str:
        """The fingerprint of problems as the model is asked them."""
        return problems_fingerprint(list(map(self.asked, problems)))

    def turns(self, tools: Sequence[Mapping[str, Any]]) -> TurnEncoder:
        """Encoder of prompts and results in an environment with these tools."""
        return TurnEncoder(self.tokenizer, tools, chat=self.chat, system_prompt=self.system_prompt)

    def encode(self, problem: Problem) -> tuple[int, ...]:
        """The tokens of the prompt as it is asked."""
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


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A recipe in a run directory, with its inputs as they were read; each fact is found once.

    No model is loaded, nothing is drawn and nothing is written by it: the stages ask it.

    Attributes:
        recipe: resolved, with ``auto`` of the device and of ``data.chat`` decided.
        directory: of the run.
        prompts: how problems are put to the model.
        problems: those of training, without the recipe's examples.
        sets: the problems of the evaluation sets.
        verifier: of training.
        accept_verifier: whether the run goes on though its verifier has another version.
    """

    recipe: Recipe
    directory: RunDirectory
    prompts: RunPrompts
    problems: tuple[Problem, ...]
    sets: SetProblems
    verifier: Verifier
    accept_verifier: bool = False

    @cached_property
    def initial(self) -> Path:
        """The directory of the initial policy."""
        return model_directory(self.recipe.model)

    @cached_property
    def presampling_seed(self) -> int:
        """The seed of the pool."""
        return self.recipe.presampling_seed

    @cached_property
    def anchors(self) -> Mapping[str, AnchorSettings]:
        """The anchors that weigh anything."""
        return self.recipe.objective.active_anchors

    @cached_property
    def unlabelled(self) -> SelfConsistencySettings | None:
        """Settings of learning from unlabelled prompts; None if training does not."""
        settings = self.recipe.self_consistency
        return settings if settings.active else None

    @cached_property
    def needs_pool(self) -> bool:
        """Whether training reads a pool."""
        return self.recipe.needs_pool

    @cached_property
    def pool(self) -> Path:
        """The place of the pool."""
        return self.directory.pool(self.recipe)

    @cached_property
    def asked_fingerprint(self) -> str:
        """Of the training problems, as the model is asked them."""
        return self.prompts.fingerprint(self.problems)

    @cached_property
    def rule(self) -> Rule:
        """Rule by which the pool is split."""
        presample = self.recipe.presample
        return Rule(
            threshold=presample.threshold, wrong_final=presample.wrong_final, keep=presample.keep
        )

    @cached_property
    def grading(self) -> ValueSource:
        """Inputs that decide the verdicts of the pool."""
        return ValueSource.of(verifier_identity(self.verifier))

    @cached_property
    def _training(self) -> TrainingKey:
        return TrainingKey(
            self.recipe,
            self.initial,
            self.prompts.tokenizer,
            asked=self.asked_fingerprint,
            verifier=self.verifier,
        )

    def training_key(self) -> str:
        """The digest that a checkpoint names: of all that its weights are made from.

        Only the stores are looked at again with every call, because a stage may have made them.
        """
        return self._training.digest()


@contextmanager
def open_plan(
    recipe: Recipe,
    directory: Path,
    *,
    all_sets: bool = False,
    accept_verifier: bool = False,
) -> Iterator[RunPlan]:
    """Plan the run of ``recipe`` in ``directory``; its verifier is stopped afterwards.

    What the recipe names on the Hub is fetched, unless it is in the cache. Cheap inputs come first,
    so that a bad one is named before anything heavy is loaded: the model's config, then data.
    Evaluation sets are read when they are asked for, or all of them here with ``all_sets``.

    Raises:
        DataError: the problems are missing or malformed, or the databases' directory is missing.
        ModelError: the model or its tokenizer cannot be used.
        SettingsError: the verifier or the style classifier is unknown.
    """
    refuse_stores(directory)
    recipe = on_this_device(resolve_names(recipe).recipe)
    initial = model_directory(recipe.model)
    require_usable(load_config(initial), recipe.model.path)
    sets = SetProblems(recipe)
    if all_sets:
        sets.load_all()
    data = recipe.data
    problems = tuple(load_problems(problems_file(data.train), columns=data.columns))
    databases = recipe.data.databases
    if databases is not None and not databases.is_dir():
        raise DataError(f"data.databases is not a directory: {databases}")
    make_style(recipe.data.styles, recipe.data.modules)
    tokenizer = load_tokenizer(initial)
    set_template_variables(tokenizer, data.template)
    chat = wants_chat(tokenizer, data.chat)
    recipe = recipe.model_copy(update={"data": data.decided(chat=chat)})
    if recipe.model.threads:
        torch.set_num_threads(recipe.model.threads)
    shots, problems = recipe_shots(recipe, problems)
    if shots is not None:
        require_no_shown_test(shots, [(name, sets[name]) for name in data.sets])
    verifier = run_verifier(recipe)
    try:
        yield RunPlan(
            recipe=recipe,
            directory=RunDirectory(directory),
            prompts=RunPrompts(
                tokenizer=tokenizer, chat=chat, system_prompt=data.system_prompt, shots=shots
            ),
            problems=problems,
            sets=sets,
            verifier=verifier,
            accept_verifier=accept_verifier,
        )
    finally:
        verifier.close()

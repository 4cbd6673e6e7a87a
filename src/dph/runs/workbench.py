"""From a recipe to what its stages work with: tokenizer, problems, verifier, sampler."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from dph.errors import DataError
from dph.model.adapter import is_adapter
from dph.model.fingerprint import tokenizer_fingerprint, weight_fingerprint
from dph.model.forward.logprobs import score_completions
from dph.model.hub import model_directory, problems_file, resolve_names
from dph.model.loading import load_config, load_tokenizer, require_usable
from dph.model.policies import load_policy, load_whole
from dph.model.prompts import encode_prompt, set_template_variables, stop_token_ids, wants_chat
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler, check_requests
from dph.model.sampler.vllm import EngineOptions, VLLMSampler, require_vllm
from dph.recipe import Recipe
from dph.records import Problem
from dph.runs.presample.manifest import Rule, Source
from dph.runs.set_problems import SetProblems, recipe_shots, require_no_shown_test
from dph.runs.train.optimizer import FILE as OPTIMIZER_FILE
from dph.runs.verifier_maker import verifier_maker
from dph.tasks.problems import load_problems, problems_fingerprint
from dph.tasks.shots import Shots
from dph.tasks.styles import make_style
from dph.tasks.verifiers.base import Verifier, verifier_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Everything of a recipe that does not depend on the weights.

    ``accept_verifier`` lets a run go on though its verifier has another version than before.
    """

    recipe: Recipe
    tokenizer: PreTrainedTokenizerBase
    problems: tuple[Problem, ...]
    sets: SetProblems
    verifier: Verifier
    shots: Shots | None = None
    accept_verifier: bool = False

    @property
    def initial(self) -> Path:
        """The directory of the initial policy."""
        return model_directory(self.recipe.model)

    def load_model(self, path: str | Path) -> PreTrainedModel:
        """A model with the recipe's device, precision, attention and checkpointing.

        A checkpoint that holds an adapter is the initial policy with that.
        """
        return load_policy(Path(path), self.recipe.model, initial=self.initial)

    def load_policy(self, checkpoint: Path | None) -> PreTrainedModel:
        """The model to train: a checkpoint, or the initial policy with a new adapter if need be."""
        return load_policy(
            checkpoint or self.initial,
            self.recipe.model,
            initial=self.initial,
            seed=self.recipe.seed,
        )

    def asked(self, problem: Problem) -> Problem:
        """The problem as the model is asked it: behind the recipe's examples, if there are any."""
        if self.shots is None or not problem.prompt:
            return problem
        return self.shots.before(problem, chat=self.recipe.data.chat is True)

    def asked_fingerprint(self, problems: Sequence[Problem]) -> str:
        """The fingerprint of problems as the model is asked them."""
        return problems_fingerprint(list(map(self.asked, problems)))

    def encode(self, problem: Problem) -> tuple[int, ...]:
        """The tokens of the prompt as it is asked."""
        data, prompt = self.recipe.data, self.asked(problem).prompt
        return encode_prompt(
            self.tokenizer, prompt, chat=data.chat is True, system_prompt=data.system_prompt
        )

    def require_prompts_fit(
        self, config: PreTrainedConfig, problems: Sequence[Problem], *, max_tokens: int
    ) -> None:
        """Refuse prompts that cannot be sampled, before anything is written.

        Raises:
            DataError: a prompt is empty.
            ModelError: a prompt is a chat, and the tokenizer has no template for it.
            SettingsError: a prompt and ``max_tokens`` do not fit the model's context.
        """
        requests = (
            SampleRequest(problem_id=p.problem_id, prompt_ids=self.encode(p), samples=1)
            for p in problems
        )
        check_requests(
            config, requests, SamplingParameters(max_tokens=max_tokens, stop_token_ids=())
        )

    def sampler(self, model: PreTrainedModel) -> TorchSampler:
        """A sampler for these weights."""
        recipe = self.recipe
        return TorchSampler(
            model,
            self.tokenizer,
            max_rows=recipe.sampling.max_rows,
            cache_tokens=recipe.sampling.cache_tokens,
            cuda_graphs=recipe.sampling.cuda_graphs,
            dtype=recipe.model.dtype,
        )

    def draw(self, model: PreTrainedModel) -> GradedSampler:
        """Sampling and grading of training problems with these weights."""
        sampling = self.recipe.sampling
        return GradedSampler(
            sampler=self.sampler(model),
            verifier=self.verifier,
            encode=self.encode,
            parameters=SamplingParameters(
                max_tokens=sampling.max_tokens,
                stop_token_ids=stop_token_ids(self.tokenizer, model, sampling.stop),
                temperature=sampling.temperature,
                top_p=sampling.top_p,
            ),
            style=make_style(self.recipe.data.styles, self.recipe.data.modules),
            crash_limit=self.recipe.data.verifier_crash_limit,
        )

    @contextmanager
    def drawing(self, model: PreTrainedModel, path: str | Path) -> Iterator[GradedSampler]:
        """Sampling and grading by the recipe's engine, with weights that are saved in ``path`` too.

        Raises:
            SettingsError: the engine is vLLM, and it is not installed or has no device.
        """
        draw = self.draw(model)
        if self.recipe.sampling.engine == "torch":
            yield draw
            return
        with self._on_disk(path) as whole, self._vllm(model, whole) as sampler:
            yield replace(draw, sampler=sampler)

    @contextmanager
    def _on_disk(self, path: str | Path) -> Iterator[Path]:
        """A directory of whole weights and no others, for an engine that reads its own.

        An adapter is merged; a checkpoint's optimizer stays out, which vLLM would take for weights.
        """
        path = Path(path)
        if not is_adapter(path) and not (path / OPTIMIZER_FILE).exists():
            yield path
            return
        with TemporaryDirectory() as temporary:
            if is_adapter(path):
                whole = load_whole(path, initial=self.initial, weights=self.recipe.model.weights)
                whole.save_pretrained(temporary)
            else:
                for file in path.resolve().iterdir():
                    if file.name != OPTIMIZER_FILE:
                        (Path(temporary) / file.name).symlink_to(file)
            yield Path(temporary)

    def require_engine(self) -> None:
        """Find out that the engine is not there before a model is loaded.

        Raises:
            SettingsError: the engine is vLLM, and it is not installed or has no device.
        """
        if self.recipe.sampling.engine == "vllm":
            require_vllm()

    def _vllm(self, model: PreTrainedModel, path: str | Path) -> VLLMSampler:
        recipe, settings = self.recipe, self.recipe.vllm
        return VLLMSampler(
            path,
            self.tokenizer,
            options=EngineOptions(
                dtype=recipe.model.dtype,
                max_rows=recipe.sampling.max_rows,
                memory=settings.memory,
                gpus=settings.gpus,
                context=settings.context,
                eager=settings.eager,
            ),
            rescore=partial(
                score_completions,
                model,
                pad_id=int(self.tokenizer.pad_token_id),
                token_budget=recipe.train.microbatch_tokens,
                dtype=recipe.model.dtype,
            ),
        )

    def source(self, model: PreTrainedModel, draw: GradedSampler) -> Source:
        """Provenance of a pool of this recipe; ``model`` is the initial policy."""
        recipe, data = self.recipe, self.recipe.data
        verifier = verifier_identity(self.verifier)
        return Source(
            model=recipe.model.path,
            model_fingerprint=weight_fingerprint(model),
            tokenizer_fingerprint=tokenizer_fingerprint(self.tokenizer),
            problems_fingerprint=self.asked_fingerprint(self.problems),
            chat=data.chat is True,
            system_prompt=data.system_prompt,
            verifier=verifier["name"],
            verifier_version=verifier["version"],
            verifier_settings=verifier["settings"],
            samples=recipe.presample.samples,
            temperature=draw.parameters.temperature,
            top_p=draw.parameters.top_p,
            max_tokens=draw.parameters.max_tokens,
            stop_token_ids=draw.parameters.stop_token_ids,
            dtype=recipe.model.dtype,
            seed=recipe.presampling_seed,
            engine=recipe.sampling.engine,
        )

    def rule(self) -> Rule:
        """Rule for splitting a pool of this recipe."""
        presample = self.recipe.presample
        return Rule(
            threshold=presample.threshold, wrong_final=presample.wrong_final, keep=presample.keep
        )


@contextmanager
def open_workbench(
    recipe: Recipe, *, sets: SetProblems | None = None, accept_verifier: bool = False
) -> Iterator[Workbench]:
    """Load the tokenizer and the problems and start the verifier; stop it afterwards.

    What the recipe names on the Hub is fetched, unless it is in the cache. Cheap inputs come first,
    so that a bad one is named before anything heavy is loaded: the model's config, then data.
    ``sets`` are the recipe's evaluation sets where they are wanted: all of them are read then.

    Raises:
        DataError: the problems are missing or malformed, or the databases' directory is missing.
        ModelError: the model or its tokenizer cannot be used.
        SettingsError: the verifier or the style classifier is unknown.
    """
    recipe = resolve_names(recipe).recipe
    initial = model_directory(recipe.model)
    require_usable(load_config(initial), recipe.model.path)
    if sets is not None:
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
    recipe = recipe.model_copy(update={"data": data.model_copy(update={"chat": chat})})
    if recipe.model.threads:
        torch.set_num_threads(recipe.model.threads)
    shots, problems = recipe_shots(recipe, problems)
    tests = sets or SetProblems(recipe)
    if shots is not None:
        require_no_shown_test(shots, [(name, tests[name]) for name in data.sets])
    verifier = verifier_maker(recipe)(recipe.data.verifier)
    try:
        yield Workbench(
            recipe=recipe,
            tokenizer=tokenizer,
            problems=problems,
            sets=tests,
            verifier=verifier,
            shots=shots,
            accept_verifier=accept_verifier,
        )
    finally:
        verifier.close()

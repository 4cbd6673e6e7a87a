"""Samplers and verifiers of a recipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.errors import SettingsError
from dph.model.forward.scorer import AnswerScorer
from dph.model.loading import longest_context
from dph.model.policies import is_adapter, load_whole
from dph.model.prompts import stop_token_ids
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import AnswerSampler, EpisodeSampler
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.vllm import EngineOptions, VLLMSampler
from dph.recipe import DataSettings, Recipe, SelfConsistencySettings
from dph.recipe.schema import CODE, SQL
from dph.recipe.tables import MAX_ROWS
from dph.runs.job import RunJob
from dph.runs.train.optimizer import FILE as OPTIMIZER_FILE
from dph.tasks.agreement import Comparer, KeyComparer, VerifierComparer, compares
from dph.tasks.code_environment import code_environment
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.environments.tasksets import PREFIX
from dph.tasks.sql.environment import sql_environment
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier


def verifier_maker(recipe: Recipe) -> Callable[[str], Verifier]:
    """Makes verifiers by name, with the settings of ``[data]``."""
    data = recipe.data
    return partial(
        make_verifier,
        databases=data.databases,
        workers=data.verifier_workers,
        timeout=data.verifier_timeout,
        modules=data.modules,
        **data.verifier_settings,
    )


def _environment(path: str, recipe: Recipe) -> Environment:
    settings, databases = recipe.environment, recipe.data.databases
    if path == SQL:
        if databases is None:
            raise SettingsError("environment.path = 'sql' needs data.databases, their directory")
        return sql_environment(
            databases, form=settings.form, limits=settings.limits, hidden=settings.hidden
        )
    if path == CODE:
        return code_environment(form=settings.form, limits=settings.limits, hidden=settings.hidden)
    package = path.removeprefix(PREFIX) if path.startswith(PREFIX) else ""
    return Environment(
        f"dph.tasks.environments.tasksets:packages.{package}" if package else path,
        source=package,
        directories=recipe.data.modules,
        form=settings.form,
        limits=settings.limits,
        submits=settings.submits,
        hidden=settings.hidden,
        columns=settings.columns,
    )


def run_verifier(recipe: Recipe) -> Verifier:
    """The verifier of a run's training: that of ``[data]``, or of its ``[environment]``."""
    name, settings = recipe.data.verifier, recipe.environment
    if settings.path is None:
        return verifier_maker(recipe)(name)
    environment = _environment(settings.path, recipe)
    try:
        if not environment.rewards:
            return EnvironmentVerifier(environment, verifier_maker(recipe)(name))
        if name != DataSettings.model_fields["verifier"].default:
            raise SettingsError(
                f"data.verifier = {name!r}, and the class {settings.path!r} has 'get_reward': "
                "which of them says what a trajectory is worth? Leave one out"
            )
        return EnvironmentVerifier(environment, None)
    except BaseException:
        environment.close()
        raise


def kind_of(verifier: Verifier) -> str:
    return "environment" if isinstance(verifier, EnvironmentVerifier) else "verifier"


def scorer_of(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, *, temperature: float | None = None
) -> AnswerScorer:
    """The scorer of a run; ``temperature`` None: that of training."""
    return AnswerScorer(
        pad_id=int(tokenizer.eos_token_id),  # some models have no embedding of their pad token
        temperature=recipe.sampling.temperature if temperature is None else temperature,
        dtype=recipe.model.dtype,
        token_budget=recipe.train.microbatch_tokens,
        sharing=recipe.train.shared_prompts,
    )


def torch_sampler(job: RunJob, model: PreTrainedModel) -> TorchSampler:
    sizes = job.recipe.sampling.model_dump(include={"max_rows", "cache_tokens"})
    given = {name: size for name, size in sizes.items() if size != "auto"}
    return TorchSampler(model, job.prompts.tokenizer, **given, dtype=job.recipe.model.dtype)


def parameters_of(job: RunJob, model: PreTrainedModel) -> SamplingParameters:
    sampling = job.recipe.sampling
    return SamplingParameters(
        max_tokens=sampling.max_tokens,
        stop_token_ids=stop_token_ids(job.prompts.tokenizer, model, sampling.stop),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
    )


def graded_sampler(job: RunJob, model: PreTrainedModel) -> AnswerSampler:
    """The sampler of graded answers, or with ``[environment]`` of trajectories, on torch."""
    crash_limit = job.recipe.data.verifier_crash_limit
    sampler, parameters = torch_sampler(job, model), parameters_of(job, model)
    if isinstance(job.verifier, EnvironmentVerifier):
        settings = job.recipe.environment
        return EpisodeSampler(
            sampler=sampler,
            environment=job.verifier.environment,
            encoder=job.prompts.turns(job.verifier.environment.tools),
            parameters=parameters,
            tokens=settings.tokens,
            context=longest_context(model.config),
            verifier=job.verifier.verifier,
            crash_limit=crash_limit,
            at_once=settings.processes,
        )
    return GradedSampler(
        sampler=sampler,
        verifier=job.verifier,
        encode=job.prompts.encode,
        parameters=parameters,
        style=job.style,
        crash_limit=crash_limit,
    )


@contextmanager
def drawing(job: RunJob, model: PreTrainedModel, path: Path) -> Iterator[AnswerSampler]:
    """``graded_sampler`` with the recipe's engine; ``path`` has the weights of ``model``."""
    draw = graded_sampler(job, model)
    if job.recipe.sampling.engine == "torch":
        yield draw
        return
    recipe, settings, tokenizer = job.recipe, job.recipe.vllm, job.prompts.tokenizer
    scorer = replace(scorer_of(recipe, tokenizer), sharing="auto")
    options = EngineOptions(
        dtype=recipe.model.dtype,
        max_rows=MAX_ROWS if recipe.sampling.max_rows == "auto" else recipe.sampling.max_rows,
        memory=settings.memory,
        gpus=settings.gpus,
        context=settings.context,
        eager=settings.eager,
    )
    rescore = partial(scorer.logprobs, model)
    with (
        _on_disk(job, path) as whole,
        VLLMSampler(whole, tokenizer, options=options, rescore=rescore) as sampler,
    ):
        yield replace(draw, sampler=sampler)


@contextmanager
def _on_disk(job: RunJob, path: Path) -> Iterator[Path]:
    """A directory with whole weights and no other safetensors, which vLLM would load too.

    An adapter is merged; a checkpoint is linked without its optimizer.
    """
    if not is_adapter(path) and not (path / OPTIMIZER_FILE).exists():
        yield path
        return
    with TemporaryDirectory() as temporary:
        if is_adapter(path):
            weights = job.recipe.model.weights
            assert weights != "nf4"  # refused by the recipe
            load_whole(path, initial=job.initial, weights=weights).save_pretrained(temporary)
        else:
            for file in path.resolve().iterdir():
                if file.name != OPTIMIZER_FILE:
                    (Path(temporary) / file.name).symlink_to(file)
        yield Path(temporary)


def comparer_of(
    settings: SelfConsistencySettings, data: DataSettings, verifier: Verifier
) -> Comparer:
    """The comparer of unlabelled answers: ``self_consistency.agreement``, or the verifier."""
    if settings.agreement is not None:
        return KeyComparer(
            settings.agreement,
            workers=data.verifier_workers,
            timeout=data.verifier_timeout,
            directories=data.modules,
        )
    if isinstance(verifier, EnvironmentVerifier) and verifier.verifier is not None:
        verifier = verifier.verifier
    if not compares(verifier):
        raise SettingsError(
            f"self_consistency: the {kind_of(verifier)} {verifier.name!r} says what is right, but "
            f"cannot compare two answers: name a function that can in self_consistency.agreement "
            f"('module:callable', f(response, problem) -> key or None), or set "
            f"self_consistency.problems_per_step = 0"
        )
    return VerifierComparer(verifier)

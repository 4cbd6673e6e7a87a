"""The samplers of a run: answers drawn by the recipe's engine, and graded."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.model.forward.scorer import AnswerScorer
from dph.model.policies import is_adapter, load_whole
from dph.model.prompts import stop_token_ids
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import AnswerSampler, EpisodeSampler
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.vllm import EngineOptions, VLLMSampler, require_vllm
from dph.recipe import Recipe
from dph.recipe.tables import MAX_ROWS
from dph.runs.plan import RunPlan
from dph.runs.train.optimizer import FILE as OPTIMIZER_FILE
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.styles import make_style


def scorer_of(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, *, temperature: float | None = None
) -> AnswerScorer:
    """Scorer of a run, at the temperature of training unless another is named."""
    return AnswerScorer(
        pad_id=int(tokenizer.pad_token_id),
        temperature=recipe.sampling.temperature if temperature is None else temperature,
        dtype=recipe.model.dtype,
        token_budget=recipe.train.microbatch_tokens,
        sharing=recipe.train.shared_prompts,
    )


def torch_sampler(plan: RunPlan, model: PreTrainedModel) -> TorchSampler:
    """Our own sampler of these weights."""
    sizes = plan.recipe.sampling.model_dump(include={"max_rows", "cache_tokens"})
    given = {name: size for name, size in sizes.items() if size != "auto"}
    return TorchSampler(model, plan.prompts.tokenizer, **given, dtype=plan.recipe.model.dtype)


def graded_sampler(plan: RunPlan, model: PreTrainedModel) -> AnswerSampler:
    """Answers of these weights to training problems, drawn by our own sampler and graded.

    Where the recipe has an ``[environment]``, they are trajectories in it.
    """
    sampling, data = plan.recipe.sampling, plan.recipe.data
    sampler = torch_sampler(plan, model)
    parameters = SamplingParameters(
        max_tokens=sampling.max_tokens,
        stop_token_ids=stop_token_ids(plan.prompts.tokenizer, model, sampling.stop),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
    )
    if isinstance(plan.verifier, EnvironmentVerifier):
        settings = plan.recipe.environment
        return EpisodeSampler(
            sampler=sampler,
            environment=plan.verifier.environment,
            encoder=plan.prompts.turns(plan.verifier.environment.tools),
            parameters=parameters,
            tokens=settings.tokens,
            context=getattr(model.config.get_text_config(), "max_position_embeddings", None),
            verifier=plan.verifier.verifier,
            crash_limit=data.verifier_crash_limit,
            at_once=settings.processes,
        )
    return GradedSampler(
        sampler=sampler,
        verifier=plan.verifier,
        encode=plan.prompts.encode,
        parameters=parameters,
        style=make_style(data.styles, data.modules),
        crash_limit=data.verifier_crash_limit,
    )


@contextmanager
def drawing(plan: RunPlan, model: PreTrainedModel, path: Path) -> Iterator[AnswerSampler]:
    """``graded_sampler`` with the recipe's engine; the weights are those in ``path`` too."""
    draw = graded_sampler(plan, model)
    if plan.recipe.sampling.engine == "torch":
        yield draw
        return
    with _on_disk(plan, path) as whole, _vllm(plan, model, whole) as sampler:
        yield replace(draw, sampler=sampler)


def require_engine(recipe: Recipe) -> None:
    """Find out that the engine is not there before a model is loaded."""
    if recipe.sampling.engine == "vllm":
        require_vllm()


@contextmanager
def _on_disk(plan: RunPlan, path: Path) -> Iterator[Path]:
    """A directory of whole weights and no others, for an engine that reads its own.

    An adapter is merged; a checkpoint's optimizer stays out, which vLLM would take for weights.
    """
    if not is_adapter(path) and not (path / OPTIMIZER_FILE).exists():
        yield path
        return
    with TemporaryDirectory() as temporary:
        if is_adapter(path):
            weights = plan.recipe.model.weights
            assert weights != "nf4"  # refused by the recipe
            whole = load_whole(path, initial=plan.initial, weights=weights)
            whole.save_pretrained(temporary)
        else:
            for file in path.resolve().iterdir():
                if file.name != OPTIMIZER_FILE:
                    (Path(temporary) / file.name).symlink_to(file)
        yield Path(temporary)


def _vllm(plan: RunPlan, model: PreTrainedModel, path: Path) -> VLLMSampler:
    recipe, settings, tokenizer = plan.recipe, plan.recipe.vllm, plan.prompts.tokenizer
    scorer = replace(scorer_of(recipe, tokenizer), sharing="auto")
    return VLLMSampler(
        path,
        tokenizer,
        options=EngineOptions(
            dtype=recipe.model.dtype,
            max_rows=MAX_ROWS if recipe.sampling.max_rows == "auto" else recipe.sampling.max_rows,
            memory=settings.memory,
            gpus=settings.gpus,
            context=settings.context,
            eager=settings.eager,
        ),
        rescore=partial(scorer.logprobs, model),
    )

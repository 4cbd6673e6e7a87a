"""``dph-corpus base``: a causal language model from a corpus, by transformers' Trainer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from dph._base.files import only_writer
from dph._base.files.rows import row_format
from dph.errors import DphError, ModelError
from dph.model.loading import load_config, load_model, load_tokenizer
from dph.model.policies import directory_fingerprint, tokenizer_fingerprint
from dph.runs.check_model import Findings
from dph.runs.progress import ProgressDisplay
from dph_corpus import Corpus, open_corpus
from dph_corpus.base.checkpointed import (
    CHECKPOINTS,
    MODEL,
    begin,
    finish,
    last_loss,
    lm_card,
    train_on,
    trainer_settings,
)
from dph_corpus.base.recipes import BaseRecipe, LMRecipe, SFTRecipe, WarmupStableDecay
from dph_corpus.base.tokens import Blocks, Curriculum, corpus_tokens, tokenizer_for

VERSION = 2
"""Counts up when the same recipe and data give other weights."""


def train_base(
    recipe: BaseRecipe,
    directory: Path,
    progress: ProgressDisplay,
    *,
    replace: bool = False,
    tokens: Path | None = None,
) -> Path:
    """Train a base model and return its directory, ``directory/model``.

    A finished one that was made from the same is kept; a run that was killed goes on from its
    newest checkpoint. The same recipe, corpora and number of threads give the same weights.

    Args:
        recipe: what is trained.
        directory: where tokenizer, tokens, checkpoints and the model are written.
        progress: told of the steps.
        replace: remove a training that was made from something else.
        tokens: where the encoded corpora are kept [default: ``directory/tokens``].

    Raises:
        DataError: a corpus is missing or too small, or another process writes there.
        ModelError: the model to continue cannot be used, or ``directory`` holds something else.
        SettingsError: the device is not there.
        TrainingError: a loss is not finite.
    """
    corpora = [open_corpus(path) for path in (recipe.data.corpus, recipe.data.annealing) if path]
    with only_writer(directory):
        if begin(directory, _made_from(recipe, corpora), replace=replace):
            return directory / MODEL
        if recipe.device.threads:
            torch.set_num_threads(recipe.device.threads)
        if recipe.continued is not None:
            tokenizer = load_tokenizer(recipe.continued)
        else:
            tokenizer = tokenizer_for(recipe.tokenizer, corpora, directory / "tokenizer")
        data = _curriculum(recipe, corpora, tokenizer, tokens or directory / "tokens", progress)
        model = _initial(recipe, tokenizer)
        trainer = BaseTrainer(
            model=model,
            args=TrainingArguments(
                **trainer_settings(
                    directory / CHECKPOINTS,
                    optimizer=recipe.train,
                    device=recipe.device,
                    seed=recipe.seed,
                    sequences_per_step=recipe.train.sequences_per_step,
                    sequences_at_once=recipe.train.sequences_at_once,
                    checkpoint_every=recipe.train.checkpoint_every,
                ),
                max_steps=recipe.train.steps + recipe.train.annealing_steps,
                train_sampling_strategy="sequential",
            ),
            train_dataset=data,
            rates=schedule_of(recipe),
        )
        train_on(trainer, directory / CHECKPOINTS, progress, title=f"base {recipe.name}")
        log = trainer.state.log_history
        card = lm_card(recipe, _facts(recipe, corpora, model, log), tags=["base-model"])
        return finish(directory, model, tokenizer, log=log, card=card)


class BaseTrainer(Trainer):  # type: ignore[misc]  # transformers is untyped
    """transformers' Trainer with the schedule that it lacks."""

    def __init__(self, *, rates: WarmupStableDecay, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._rates = rates
        self.lr_scheduler: LRScheduler | None

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LRScheduler:
        """Warm-up, constant, exponential annealing, whatever the number of steps."""
        if self.lr_scheduler is None:
            if num_training_steps != self._rates.steps:
                raise ValueError(
                    f"{num_training_steps} steps, the schedule has {self._rates.steps}"
                )
            rates = self._rates  # in a function: a checkpoint then holds no settings of it
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: rates(step))
        return self.lr_scheduler


def schedule_of(recipe: BaseRecipe) -> WarmupStableDecay:
    """The learning rates of a recipe, as shares of the full one."""
    train = recipe.train
    return WarmupStableDecay(
        warmup=train.warmup_steps,
        stable=train.steps - train.warmup_steps,
        decay=train.annealing_steps,
        final=train.final_rate / train.learning_rate,
    )


def config_of(recipe: BaseRecipe, *, vocabulary: int) -> LlamaConfig:
    """The Llama of ``[model]``; special tokens are left to the tokenizer."""
    shape = recipe.model
    if shape is None:
        raise ModelError("a continued model takes its shape from its directory")
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads or shape.heads,
        rope_theta=shape.rope_theta,
        max_position_embeddings=recipe.train.context,
        tie_word_embeddings=shape.tied,
    )


def parameters_of(config: LlamaConfig) -> int:
    """Number of parameters of a model of ``config``; nothing is allocated."""
    with torch.device("meta"):
        return int(LlamaForCausalLM(config).num_parameters())


def _initial(recipe: BaseRecipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    set_seed(recipe.seed)
    if recipe.continued is not None:
        model = load_model(recipe.continued, device="cpu", attention=recipe.device.attention)
        model.config.use_cache = False
        return model.train()
    config = config_of(recipe, vocabulary=len(tokenizer))
    config.pad_token_id, config.bos_token_id = tokenizer.pad_token_id, tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config._attn_implementation = recipe.device.attention
    return LlamaForCausalLM(config)


def _curriculum(
    recipe: BaseRecipe,
    corpora: list[Corpus],
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    progress: ProgressDisplay,
) -> Curriculum:
    train = recipe.train
    parts, counts = [], [train.steps, train.annealing_steps]
    if recipe.data.annealing is None:
        counts = [sum(counts)]
    for name, corpus, steps in zip(("corpus", "annealing"), corpora, counts, strict=False):
        sequences = steps * train.sequences_per_step
        with progress.task(f"tokens of the {name}", len(corpus.shards), "shards") as advance:
            tokens = corpus_tokens(
                corpus,
                tokenizer,
                directory / name,
                most=sequences * train.context,
                on_progress=advance,
            )
        parts.append((Blocks(tokens, train.context, recipe.seed, name), sequences))
    return Curriculum(parts)


def _made_from(recipe: BaseRecipe, corpora: list[Corpus]) -> dict[str, Any]:
    """All that the weights depend on; places do not count, contents do."""
    settings = recipe.model_dump(
        mode="json", exclude={"data", "name", "notes", "continued", "tokenizer"}
    )
    tokenizer = recipe.tokenizer.model_dump(mode="json", exclude={"path"})
    if recipe.tokenizer.path is not None:
        tokenizer = {"sha256": tokenizer_fingerprint(load_tokenizer(recipe.tokenizer.path))}
    continued = recipe.continued and directory_fingerprint(recipe.continued)
    return {
        "version": VERSION,
        "settings": settings,
        "tokenizer": tokenizer,
        "continued": continued,
        "corpora": [[shard.sha256 for shard in corpus.shards] for corpus in corpora],
    }


def _facts(
    recipe: BaseRecipe, corpora: list[Corpus], model: PreTrainedModel, log: list[Any]
) -> dict[str, Any]:
    train = recipe.train
    a_step = train.sequences_per_step * train.context
    facts: dict[str, Any] = {
        "parameters": model.num_parameters(),
        "tokens learnt from the corpus": train.steps * a_step,
        "tokens learnt while annealing": train.annealing_steps * a_step,
        "last loss (nats a token)": last_loss(log),
    }
    for name, corpus in zip(("corpus", "annealing mixture"), corpora, strict=False):
        facts[f"content of the {name}"] = f"`{corpus.manifest.content}`"
    return facts


# The plan of a recipe of ``dph-corpus base`` or ``dph-corpus sft``, and faults in what it names.


def plan(recipe: LMRecipe) -> list[str]:
    """The stages, a line each; nothing is opened."""
    if isinstance(recipe, BaseRecipe):
        return [*_base_plan(recipe)]
    return [
        f"{stage.name}: {stage.epochs} epochs over {len(stage.rows)} files of rows, "
        f"{stage.sequences_per_step} sequences of {stage.max_tokens} tokens a step, "
        f"{stage.schedule} from {stage.learning_rate:g}"
        for stage in recipe.stages
    ]


def preflight(recipe: LMRecipe) -> Findings:
    """Open all that the recipe names but weights. What is not there yet is a note."""
    found = Findings()
    if isinstance(recipe, BaseRecipe):
        _look_at_base(recipe, found)
    else:
        _look_at_sft(recipe, found)
    return found


def _base_plan(recipe: BaseRecipe) -> Iterator[str]:
    train, rates = recipe.train, schedule_of(recipe)
    a_step = train.sequences_per_step * train.context
    tokens = rates.steps * a_step
    if recipe.model is not None:
        # Who names a tokenizer by its directory says its vocabulary with it, or it is the default.
        size = parameters_of(config_of(recipe, vocabulary=recipe.tokenizer.vocabulary))
        yield f"model: {size / 1e6:.1f} M parameters, {6.0 * size * tokens:.2g} FLOP"
    else:
        yield f"model: continues {recipe.continued}"
    yield (
        f"corpus: {train.steps} steps of {a_step} tokens, {train.steps * a_step / 1e9:.4g} B; "
        f"warm-up over {rates.warmup}, then {train.learning_rate:g}"
    )
    if train.annealing_steps:
        yield (
            f"annealing: {train.annealing_steps} steps, "
            f"{train.annealing_steps * a_step / 1e9:.4g} B tokens, down to {train.final_rate:g}"
        )


def _look_at_base(recipe: BaseRecipe, found: Findings) -> None:
    for place in (recipe.data.corpus, recipe.data.annealing):
        if place is None:
            continue
        if not place.exists():
            found.notes.append(f"the corpus {place} does not exist yet")
            continue
        try:
            open_corpus(place)
        except DphError as error:
            found.errors.append(str(error))
    for model in (recipe.continued, recipe.tokenizer.path):
        if model is not None:
            _look_at_model(model, found)


def _look_at_sft(recipe: SFTRecipe, found: Findings) -> None:
    _look_at_model(recipe.model, found)
    for stage in recipe.stages:
        for path in stage.rows:
            try:
                row_format(path)
            except DphError as error:
                found.errors.append(str(error))
                continue
            if not path.is_file():
                found.notes.append(f"the rows {path} of stage {stage.name} do not exist yet")


def _look_at_model(path: Path, found: Findings) -> None:
    if not path.exists():
        found.notes.append(f"the model {path} does not exist yet")
        return
    try:
        load_tokenizer(path)
        load_config(path)
    except DphError as error:
        found.errors.append(str(error))

"""``dph-corpus sft``: supervised fine-tuning in stages, by TRL's SFTTrainer, on responses alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase, set_seed

from dph._base.files import only_writer, sha256
from dph._base.files.rows import read_rows
from dph._base.provenance import install_command
from dph._base.randomness import generator
from dph.errors import DataError, ModelError, SettingsError
from dph.model.loading import load_model, load_tokenizer
from dph.model.policies import directory_fingerprint
from dph.model.prompts import encode_prompt
from dph.runs.progress import ProgressDisplay
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
from dph_corpus.base.recipes import SFTRecipe, SFTStageSettings

# Rows of supervised fine-tuning: which tokens a model reads, and which it learns to say.
#
# A row has a ``prompt`` (a text, or messages) and a ``response``; or ``messages`` alone, of which
# all that the assistant says is learnt.

IGNORED = -100
"""The label of a token that is read and not learnt."""


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """Token ids, and for each the label: itself where it is learnt, else IGNORED."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]

    @property
    def learnt(self) -> int:
        """Number of tokens that are learnt."""
        return sum(label != IGNORED for label in self.labels)


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """The rows that are trained on, and how many were left out, by reason."""

    rows: Sequence[EncodedRow]
    left_out: Counter[str] = field(default_factory=Counter)


def read_sft_rows(
    paths: Sequence[Path], tokenizer: PreTrainedTokenizerBase, *, chat: bool, max_tokens: int
) -> EncodedRows:
    """The rows of all files, in order.

    A row over ``max_tokens`` is left out and counted as ``too_long``: cut off, it would teach an
    answer without its end.
    """
    kept: list[EncodedRow] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        for place, row in read_rows(path):
            encoded = encode_row(row, tokenizer, chat=chat, place=place)
            if len(encoded.ids) > max_tokens:
                left_out["too_long"] += 1
            else:
                kept.append(encoded)
    if not kept:
        raise DataError(
            f"no row is left of {', '.join(map(str, paths))}: "
            f"{left_out['too_long']} are longer than max_tokens={max_tokens}"
        )
    return EncodedRows(kept, left_out)


def encode_row(
    row: Any, tokenizer: PreTrainedTokenizerBase, *, chat: bool, place: str
) -> EncodedRow:
    """One row as tokens; ``place`` says where it stands, for messages.

    The prompt is encoded as in reinforcement learning and the response apart from it, so that RL
    begins with the very tokens that were learnt.
    """
    if not isinstance(row, Mapping):
        raise DataError(f"{place}: a row must be an object, got {row!r:.80}")
    if row.get("messages") is not None:
        return _conversation(_messages(row["messages"], place), tokenizer, place)
    prompt, response = row.get("prompt"), row.get("response")
    if not isinstance(response, str) or not response:
        raise DataError(f"{place}: response must be a text, got {response!r:.80}")
    if not isinstance(prompt, str):
        turns = _messages(prompt, place)
        answer = {"role": "assistant", "content": response}
        return _conversation([*turns, answer], tokenizer, place, last_only=True)
    if chat:
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
        return _conversation(turns, tokenizer, place)
    read = encode_prompt(tokenizer, prompt)
    said = (*_said(tokenizer, response, response), tokenizer.eos_token_id)
    return EncodedRow((*read, *said), (*[IGNORED] * len(read), *said))


def _messages(value: Any, place: str) -> list[dict[str, str]]:
    good = isinstance(value, Sequence) and not isinstance(value, str) and value
    if not good or not all(
        isinstance(m, Mapping) and isinstance(m.get("content"), str) and m.get("role")
        for m in value
    ):
        raise DataError(f"{place}: messages must be a list of role and content, got {value!r:.80}")
    return [{"role": m["role"], "content": m["content"]} for m in value]


def _conversation(
    turns: Sequence[Mapping[str, str]],
    tokenizer: PreTrainedTokenizerBase,
    place: str,
    *,
    last_only: bool = False,
) -> EncodedRow:
    """Learn the assistant's text after each prompt, through its end of turn."""
    answers = [i for i, turn in enumerate(turns) if turn["role"] == "assistant" and i]
    if not answers:
        raise DataError(f"{place}: the assistant says nothing after a prompt")
    ids: list[int] = []
    labels: list[int] = []
    before = ""
    for index in answers[-1:] if last_only else answers:
        asked = _text(tokenizer, turns[:index], ask=True)
        whole = _text(tokenizer, turns[: index + 1], ask=False)
        if not asked.startswith(before) or not whole.startswith(asked):
            raise ModelError(
                f"{place}: the chat template rewrites earlier turns when another follows, so the "
                f"assistant's text cannot be separated from the rest: use rows with one answer each"
            )
        # Apart, as in RL: a prompt has the same tokens whatever is answered.
        read = tokenizer.encode(asked[len(before) :], add_special_tokens=False)
        said = _said(tokenizer, whole[len(asked) :], turns[index]["content"])
        ids += [*read, *said]
        labels += [*[IGNORED] * len(read), *said]
        before = whole
    return EncodedRow(tuple(ids), tuple(labels))


def _said(tokenizer: PreTrainedTokenizerBase, text: str, answer: str) -> list[int]:
    """Ids of what the assistant says: special tokens that its ``answer`` spells out are text."""
    tokens = tokenizer.added_tokens_decoder.values()
    spelt = any(token.special and token.content in answer for token in tokens)
    kept = answer if answer in text else answer.strip()  # by most templates
    parts = text.partition(kept) if spelt else (text, "", "")
    encoded = (
        tokenizer.encode(part, add_special_tokens=False, split_special_tokens=part is parts[1])
        for part in parts
    )
    return [token for ids in encoded for token in ids]


def _text(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence[Mapping[str, str]], *, ask: bool
) -> str:
    """The turns in the chat template's words; ``ask``: up to where the assistant speaks."""
    if tokenizer.chat_template is None:
        raise ModelError(
            "the tokenizer has no chat template, which rows of messages need: use rows of prompt "
            "and response as text (chat = false), or save a chat_template with the tokenizer"
        )
    try:
        text = tokenizer.apply_chat_template(
            [dict(turn) for turn in turns], tokenize=False, add_generation_prompt=ask
        )
    except TemplateError as error:
        raise ModelError(f"the chat template refuses a row: {error}") from error
    return str(text)


VERSION = 2
"""Counts up when the same recipe and rows give other weights."""


def train_sft(
    recipe: SFTRecipe, directory: Path, progress: ProgressDisplay, *, replace: bool = False
) -> Path:
    """Train every stage, each from the weights of the one before; returns the last one's model.

    A stage leaves ``directory/<stage>/model``. Finished stages that were made from the same are
    kept; one that was killed goes on from its newest checkpoint.

    Raises:
        SettingsError: TRL is not installed, or the device is not there.
        DataError: rows are missing or malformed, or another process writes there.
        ModelError: the model cannot be used, or ``directory`` holds something else.
        TrainingError: a loss is not finite.
    """
    require_trl()
    model = recipe.model
    with only_writer(directory):
        for stage in recipe.stages:
            model = _train_stage(recipe, stage, model, directory / stage.name, progress, replace)
    return model


def require_trl() -> None:
    """Find out before anything is written."""
    try:
        import trl  # noqa: F401, PLC0415  # slow to load, and an extra
    except ImportError as error:
        command = install_command("sft", "dph-corpus")
        raise SettingsError(f"supervised fine-tuning needs TRL: {command}") from error


def _train_stage(
    recipe: SFTRecipe,
    stage: SFTStageSettings,
    initial: Path,
    directory: Path,
    progress: ProgressDisplay,
    replace: bool,
) -> Path:
    if begin(directory, _made_from(recipe, stage, initial), replace=replace):
        return directory / MODEL
    if recipe.device.threads:
        torch.set_num_threads(recipe.device.threads)
    tokenizer = load_tokenizer(initial)
    rows = read_sft_rows(stage.rows, tokenizer, chat=recipe.chat, max_tokens=stage.max_tokens)
    trainer = make_trainer(recipe, stage, initial, tokenizer, rows, directory / CHECKPOINTS)
    train_on(trainer, directory / CHECKPOINTS, progress, title=f"sft {stage.name}")
    log = trainer.state.log_history
    facts = {
        "stage": stage.name,
        "initial weights": f"SHA-256 `{directory_fingerprint(initial)}`",
        "rows": len(rows.rows),
        "rows left out": dict(rows.left_out) or "none",
        "tokens learnt an epoch": sum(row.learnt for row in rows.rows),
        "packed sequences": len(trainer.train_dataset),
        "last loss (nats a token)": last_loss(log),
    }
    card = lm_card(recipe, facts, tags=["sft"])
    model = trainer.accelerator.unwrap_model(trainer.model)
    return finish(directory, model, tokenizer, log=log, card=card)


def make_trainer(
    recipe: SFTRecipe,
    stage: SFTStageSettings,
    initial: Path,
    tokenizer: PreTrainedTokenizerBase,
    rows: EncodedRows,
    checkpoints: Path,
) -> Any:
    """TRL's trainer over packed rows in a random order.

    Packed rows do not see each other: TRL gives every row positions from 0, by which transformers
    masks them whatever the attention.
    """
    from datasets import Dataset, disable_progress_bars  # noqa: PLC0415  # slow, and an extra
    from trl import SFTConfig, SFTTrainer  # noqa: PLC0415

    disable_progress_bars()
    set_seed(recipe.seed)
    order = generator(recipe.seed, "sft rows", stage.name).permutation(len(rows.rows))
    shuffled = [rows.rows[int(index)] for index in order]
    dataset = Dataset.from_dict(
        {
            "input_ids": [list(row.ids) for row in shuffled],
            "labels": [list(row.labels) for row in shuffled],
        }
    )
    model = load_model(initial, device="cpu", attention=recipe.device.attention).train()
    model.config.use_cache = False
    arguments: dict[str, Any] = {
        **trainer_settings(
            checkpoints,
            optimizer=stage,
            device=recipe.device,
            seed=recipe.seed,
            sequences_per_step=stage.sequences_per_step,
            sequences_at_once=stage.sequences_at_once,
            checkpoint_every=stage.checkpoint_every,
        ),
        "num_train_epochs": stage.epochs,
        "warmup_steps": stage.warmup_steps,
        "lr_scheduler_type": stage.schedule,
        "max_length": stage.max_tokens,
        "packing": True,
    }
    return SFTTrainer(
        model=model, args=SFTConfig(**arguments), train_dataset=dataset, processing_class=tokenizer
    )


def _made_from(recipe: SFTRecipe, stage: SFTStageSettings, initial: Path) -> Mapping[str, Any]:
    """All that the weights depend on; places do not count, contents do."""
    return {
        "version": VERSION,
        "stage": stage.model_dump(mode="json", exclude={"rows"}),
        "settings": recipe.model_dump(mode="json", include={"seed", "chat", "device"}),
        "initial": directory_fingerprint(initial),
        "rows": [_digest(path) for path in stage.rows],
    }


def _digest(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"there is no file of rows {path}")
    return sha256(path)

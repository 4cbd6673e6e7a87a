"""The small transformer of an ablation: trained as `dph base` trains, measured on held-out code."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dph.corpus import Corpus
from dph.lab.ablation.settings import AblationSettings
from dph.lab.base.base import train_base
from dph.lab.base.recipes import BaseRecipe
from dph.model.loading import load_model
from dph.recipe.section import checked
from dph.runs.progress import ProgressDisplay

_TOGETHER = 16


def transformer_bits(
    pool: Corpus,
    tokenizer: Path,
    heldout: NDArray[np.int64],
    settings: AblationSettings,
    seed: int,
    directory: Path,
    tokens: Path,
    progress: ProgressDisplay,
) -> float:
    """Mean bits a held-out token of a transformer that has learnt ``pool`` with ``seed``."""
    recipe = recipe_of(pool, tokenizer, settings, seed, name=directory.name)
    path = train_base(recipe, directory, progress, replace=True, tokens=tokens)
    model = load_model(path, device="cpu")
    bits: list[float] = []
    with torch.inference_mode():
        for begin in range(0, len(heldout), _TOGETHER):
            ids = torch.from_numpy(heldout[begin : begin + _TOGETHER])
            logits = model(input_ids=ids).logits[:, :-1].float()
            losses = torch.nn.functional.cross_entropy(
                logits.transpose(1, 2), ids[:, 1:], reduction="none"
            )
            bits += (losses / np.log(2)).flatten().tolist()
    return float(np.mean(bits))


def recipe_of(
    pool: Corpus, tokenizer: Path, settings: AblationSettings, seed: int, *, name: str
) -> BaseRecipe:
    """The recipe of `dph base`: constant rate after a tenth of the steps, one thread."""
    table: dict[str, Any] = {
        "kind": "base",
        "name": name,
        "seed": seed,
        "data": {"corpus": str(pool.directory.resolve())},
        "tokenizer": {"path": str(tokenizer.resolve())},
        "model": {
            "width": settings.width,
            "inner": 8 * settings.width // 3,
            "layers": settings.layers,
            "heads": settings.heads,
        },
        "train": {
            "learning_rate": settings.learning_rate,
            "warmup_steps": settings.steps // 10,
            "steps": settings.steps,
            "context": settings.context,
            "sequences_per_step": settings.sequences_per_step,
            "sequences_at_once": settings.sequences_per_step,
            "checkpoint_every": settings.steps,
        },
        "device": {"device": "cpu", "threads": 1},
    }
    return checked(BaseRecipe, table, beside=Path(), place="the ablation's transformer")

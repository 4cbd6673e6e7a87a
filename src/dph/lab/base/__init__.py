"""Causal language models by maximum likelihood: a base model, and its supervised fine-tuning.

``base`` runs transformers' Trainer over packed documents of a corpus, ``sft`` TRL's SFTTrainer over
questions and answers. Both go on after a kill.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.lab.base.base import train_base
    from dph.lab.base.recipes import BaseRecipe, SFTRecipe, WarmupStableDecay, load_lm_recipe
    from dph.lab.base.sft import train_sft

__all__ = [
    "BaseRecipe",
    "SFTRecipe",
    "WarmupStableDecay",
    "load_lm_recipe",
    "train_base",
    "train_sft",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BaseRecipe": "dph.lab.base.recipes",
        "SFTRecipe": "dph.lab.base.recipes",
        "WarmupStableDecay": "dph.lab.base.recipes",
        "load_lm_recipe": "dph.lab.base.recipes",
        "train_base": "dph.lab.base.base",
        "train_sft": "dph.lab.base.sft",
    },
)

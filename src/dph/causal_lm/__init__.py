"""Causal language models by maximum likelihood: a base model, and its supervised fine-tuning.

``base`` runs transformers' Trainer over packed documents of a corpus, ``sft`` TRL's SFTTrainer over
questions and answers. Both go on after a kill.
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.causal_lm.base import train_base
    from dph.causal_lm.recipes import BaseRecipe, SFTRecipe, load_lm_recipe
    from dph.causal_lm.schedule import WarmupStableDecay
    from dph.causal_lm.sft import train_sft

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
        "BaseRecipe": "dph.causal_lm.recipes",
        "SFTRecipe": "dph.causal_lm.recipes",
        "WarmupStableDecay": "dph.causal_lm.schedule",
        "load_lm_recipe": "dph.causal_lm.recipes",
        "train_base": "dph.causal_lm.base",
        "train_sft": "dph.causal_lm.sft",
    },
)

"""A base model and its recipes that train in seconds."""

from dph_corpus.base.recipes import BaseRecipe, SFTRecipe
from dph_corpus.documents import Document
from small_corpora import small_corpus

ON_CPU = {"device": "cpu", "threads": 1}


def code_corpus(directory, count=60):
    """Functions of one line, ``count`` of them, each its own."""
    text = "def add_{0}(first, second):\n    return first + second * {0}\n"
    documents = [
        Document.of(text.format(n), id=f"f{n}", path=f"{n}.py", language="python")
        for n in range(count)
    ]
    return small_corpus(directory, documents)


def base_recipe(corpus, annealing=None, **train):
    """A recipe of ``dph-corpus base`` over a corpus; ``train`` wins over what stands here."""
    usual = {
        "steps": 6,
        "warmup_steps": 2,
        "annealing_steps": 4 if annealing else 0,
        "context": 32,
        "sequences_per_step": 4,
        "sequences_at_once": 2,
        "learning_rate": 1e-2,
        "final_rate": 1e-3,
        "checkpoint_every": 2,
    }
    return BaseRecipe(
        kind="base",
        data={"corpus": str(corpus)} | ({"annealing": str(annealing)} if annealing else {}),
        tokenizer={"vocabulary": 300},
        model={"width": 16, "inner": 32, "layers": 1, "heads": 2},
        train=usual | train,
        device=ON_CPU,
    )


def sft_recipe(model, rows, *, names=("broad", "narrow"), **stage):
    """A recipe of ``dph-corpus sft`` with a stage for each name, all over the same rows."""
    usual = {
        "rows": [str(rows)],
        "max_tokens": 48,
        "sequences_per_step": 2,
        "learning_rate": 1e-2,
        "warmup_steps": 1,
        "checkpoint_every": 2,
    }
    stages = [usual | {"name": name} | stage for name in names]
    return SFTRecipe(kind="sft", model=str(model), stages=stages, device=ON_CPU)

"""Pools of a tiny model, with a manifest that says what is true of them."""

from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.runs.presample.manifest import Rule, Source, ValueSource
from dph.runs.presample.pool import write_pool
from tiny_models import build_tokenizer


def small_source(model, /, **changes):
    """What a pool of ``model`` was made from; ``changes`` to what it says."""
    said = {
        "model": "small",
        "model_fingerprint": weight_fingerprint(model),
        "tokenizer_fingerprint": tokenizer_fingerprint(build_tokenizer()),
        "prompts": "train",
        "prompts_fingerprint": "small",
        "chat": False,
        "system_prompt": "",
        "answers": 8,
        "temperature": 0.9,
        "top_p": 1.0,
        "max_tokens": 8,
        "stop_token_ids": (1,),
        "dtype": "float32",
        "seed": 0,
    }
    return Source(**{**said, **changes})


GRADING = ValueSource(graded_by="exact", graded_version="1")


def write_pool_of(model, path, rehearsal, *, explored=(), grading=GRADING, **changes):
    """A pool of these stored answers and of problems that are solved once in eight."""
    counts = {
        "prompts": len(rehearsal) + len(explored),
        "exploration": len(explored),
        "rehearsal": len(rehearsal),
        "histogram": (0, len(explored), *[0] * 6, len(rehearsal)),
    }
    write_pool(
        path,
        source=small_source(model, **changes),
        grading=grading,
        rule=Rule(threshold=7, wrong_final="discard"),
        counts=counts,
        exploration=[(problem, 1) for problem in explored],
        rehearsal=rehearsal,
        samples=[],
    )
    return path

"""A pool of the tiny model's stored answers."""

from dph.models.fingerprint import tokenizer_fingerprint, weight_fingerprint
from dph.presampling.manifest import Counts, Rule, Source
from dph.presampling.pool import write_pool
from dph.records import Problem
from integrations.verl.rows import TEMPERATURE, make_model, stored_samples
from tiny_models import build_tokenizer

STORED = 11


def write_small_pool(path, *, stored=STORED, **changes):
    """A pool of ``stored`` answers and two problems to explore."""
    source = {
        "model": "small",
        "model_fingerprint": weight_fingerprint(make_model()),
        "tokenizer_fingerprint": tokenizer_fingerprint(build_tokenizer()),
        "problems_fingerprint": "small",
        "chat": False,
        "system_prompt": "",
        "verifier": "exact",
        "verifier_version": "1",
        "samples": 8,
        "temperature": TEMPERATURE,
        "top_p": 1.0,
        "max_tokens": 8,
        "stop_token_ids": (1,),
        "dtype": "float32",
        "seed": 0,
    }
    problems = [
        Problem(problem_id=f"p{i}", prompt=f"w{i + 3} w9", answer={"answer": f"w{i}"})
        for i in range(2)
    ]
    write_pool(
        path,
        source=Source(**{**source, **changes}),
        rule=Rule(threshold=7, wrong_final="discard"),
        counts=Counts(
            problems=stored + 2, exploration=2, rehearsal=stored, discarded=0, histogram=(0,) * 9
        ),
        exploration=[(problem, 1) for problem in problems],
        rehearsal=stored_samples(stored),
        samples=[],
    )
    return path

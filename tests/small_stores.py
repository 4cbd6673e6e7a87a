"""Stores of next-token distributions of a tiny model, as `dph presample` would leave them."""

import random
from collections import Counter

import numpy as np
import torch

from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.records import Problem
from dph.runs.presample.manifest import Source, ValueSource
from dph.runs.presample.stores.groups import StoredGroup, answer_trie, groups_table
from dph.runs.presample.stores.making import sizes
from dph.runs.presample.stores.store import write_store
from dph.runs.presample.stores.values import (
    agreement_counts,
    valued,
    values_by_prompt,
    values_table,
)
from tiny_models import VOCABULARY, build_tokenizer

ANSWERS, TOP = 3, 4


def write_store_of(model, path, *, prompts=8, temperature=0.9, seed=5, correct=None, **changes):
    """Three random answers to each prompt, of which the first two agree.

    ``correct`` says of the three whether they are; ``changes`` go to what the store says it was
    made from.
    """
    rng = random.Random(seed)
    groups = [_group(model, rng, f"u{i}", temperature) for i in range(prompts)]
    table = groups_table(groups)
    values = values_table(
        {g.problem.problem_id: valued([0, 0, 1], correct, answers=ANSWERS) for g in groups}
    )
    write_store(
        path,
        source=_source(model, temperature, seed, **changes),
        groups=[table],
        values=values,
        value_source=ValueSource(compared_by="exact", compared_version="1"),
        about={**sizes([table]), **agreement_counts(values_by_prompt(values))},
    )
    return path


def _group(model, rng, problem_id, temperature):
    def tokens(shortest, longest):
        count = rng.randint(shortest, longest)
        return tuple(rng.randrange(3, VOCABULARY) for _ in range(count))

    prompt, beginning = tokens(1, 6), tokens(1, 2)
    completions = tuple((*beginning, *tokens(1, 6)) for _ in range(ANSWERS))
    trie = answer_trie(completions)
    kept, sampled = {}, []
    for completion, path in zip(completions, trie.paths, strict=True):
        rows = _distributions(model, prompt, completion, temperature)
        sampled.append(tuple(float(r[t]) for r, t in zip(rows, completion, strict=True)))
        for row, node in zip(rows, path[:-1], strict=True):
            told = list(dict.fromkeys([*row.topk(TOP).indices.tolist(), *trie.children[node]]))
            rest = [v for v in range(len(row)) if v not in told]
            kept[node] = tuple(told), row[told].numpy(), float(row[rest].logsumexp(0))
    ids, logprobs, tails = zip(*(kept[node] for node in trie.inner), strict=True)
    return StoredGroup(
        problem=Problem(problem_id=problem_id, prompt=problem_id, answer={}),
        prompt_ids=prompt,
        texts=tuple(str(completion) for completion in completions),
        finished=(True,) * ANSWERS,
        completions=completions,
        ref_logprobs=tuple(sampled),
        token_ids=ids,
        logprobs=tuple(np.asarray(row) for row in logprobs),
        log_tails=tails,
    )


def _distributions(model, prompt, completion, temperature):
    ids = torch.tensor([[*prompt, *completion]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].double()
    return (logits / temperature).log_softmax(-1)


def _source(model, temperature, seed, **changes):
    said = {
        "model": "small",
        "model_fingerprint": weight_fingerprint(model),
        "tokenizer_fingerprint": tokenizer_fingerprint(build_tokenizer()),
        "prompts": "unlabelled",
        "prompts_fingerprint": "small",
        "chat": False,
        "system_prompt": "",
        "answers": ANSWERS,
        "top": TOP,
        "temperature": temperature,
        "top_p": 1.0,
        "max_tokens": 8,
        "stop_token_ids": (1,),
        "dtype": "float32",
        "seed": seed,
    }
    return Source(**{**said, **changes})


def bucket_kl_by_hand(table, sample):
    """Sum over the positions of KL(q || pi), from the whole table of log-probs, token by token."""
    total = table.new_zeros(())
    for row, ids, targets, tail in zip(
        table, sample.token_ids, sample.logprobs, sample.log_tails, strict=True
    ):
        told = torch.tensor([v in ids for v in range(len(row))])
        for token, target in zip(ids, targets, strict=True):
            total = total + np.exp(target) * (target - row[token])
        if tail > -np.inf:
            total = total + np.exp(tail) * (tail - row[~told].exp().sum().log())
    return total


def prompts_in(samples):
    """How many answers of each prompt there are."""
    return Counter(sample.problem_id for sample in samples)

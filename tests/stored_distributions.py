"""Stored answers with next-token distributions, from a model as it is now."""

import torch

from dph.runs.presample.tables import DistributionSample


def distribution_sample(model, ids, *, prompt=2, top=3, problem_id="d"):
    """The ``top`` likeliest tokens of ``model`` and the sampled one at each position of an answer.

    ``top`` None tells every token apart.
    """
    with torch.no_grad():
        table = model(input_ids=torch.tensor([list(ids)])).logits[0].double().log_softmax(-1)
    token_ids, logprobs, tails, sampled = [], [], [], []
    for position in range(prompt, len(ids)):
        row = table[position - 1]
        likeliest = row.topk(len(row) if top is None else top).indices.tolist()
        told = list(dict.fromkeys([*likeliest, ids[position]]))
        rest = [v for v in range(len(row)) if v not in told]
        token_ids.append(tuple(told))
        logprobs.append(tuple(row[told].tolist()))
        tails.append(float(row[rest].logsumexp(0)) if rest else float("-inf"))
        sampled.append(float(row[ids[position]]))
    return DistributionSample(
        problem_id=problem_id,
        sample_index=0,
        prompt_ids=tuple(ids[:prompt]),
        completion_ids=tuple(ids[prompt:]),
        ref_logprobs=tuple(sampled),
        token_ids=tuple(token_ids),
        logprobs=tuple(logprobs),
        log_tails=tuple(tails),
    )

"""A few text-to-SQL problems of the quickstart, and a model that knows some of their answers."""

import torch

from dph.model.forward.logprobs import completion_scores
from dph.tasks.problems import load_problems, save_problems
from dph.tasks.verl import problems_to_verl
from lab.worlds.small_model import new_model
from lab.worlds.sql.base_model import make_tokenizer
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.world import build_world

KNOWN, UNSURE = 10, 8
MAX_TOKENS = 24


def build_small_world(directory):
    """``problems.jsonl``, ``problems.parquet``, ``databases`` and ``model`` in ``directory``.

    The model has learnt the gold query of the first problems by heart; of the others it gives the
    gold query or that of another problem, one as often as the other.
    """
    count = KNOWN + UNSURE
    sizes = SQLWorldSizes(train=count, in_domain=1, cross_domain=1, arithmetic=1)
    world = build_world(directory / "world", seed=0, sizes=sizes)
    problems = load_problems(world.problems_path("train"))
    save_problems(directory / "problems.jsonl", problems)
    problems_to_verl(directory / "problems.jsonl", directory / "problems.parquet")
    tokenizer = make_tokenizer()
    model = new_model(tokenizer, seed=0)
    _memorise(model, tokenizer, problems)
    model.save_pretrained(directory / "model")
    tokenizer.save_pretrained(directory / "model")
    return world


def _memorise(model, tokenizer, problems, *, steps=110):
    gold = [problem.answer["gold_sql"] for problem in problems]
    targets = [(i, gold[i]) for i in range(len(problems)) for _ in range(2)]
    for i in range(KNOWN, len(problems)):
        targets[2 * i] = (i, gold[i - KNOWN])
    prompts = [tokenizer.encode(problems[i].prompt) for i, _ in targets]
    completions = [
        [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        for _, text in targets
    ]
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(steps):
        scores = completion_scores(
            model, prompts, completions, temperature=1.0, pad_id=tokenizer.pad_token_id
        )
        loss = -scores.logprobs.sum() / scores.mask.sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
    model.eval()
    return float(loss.detach())

"""The table of docs/performance.md is what these tests find; DPH_WRITE_DOCS=1 writes it anew."""

import os
from pathlib import Path

import pytest
import torch

from adapted_models import adapter, moved
from architectures import ARCHITECTURES, attention_of, save_architecture
from dph.model.forward.logprobs import completion_scores
from dph.model.forward.sharing import packing_support
from dph.model.loading import load_model
from dph.model.policies import add_adapter
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.torch.shared_forward import sharing_refusal, window_refusal
from model_fixtures import *  # noqa: F403

DOCUMENT = Path(__file__).parents[3] / "docs" / "performance.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
PROMPTS = [[3, 4, 5, 6, 7, 8]] * 3 + [[9, 10, 11]]
COMPLETIONS = [[12, 13, 1], [12, 14, 15, 1], [16, 1], [17, 18, 1]]
WEIGHTS = (1.0, -0.5, 2.0, 0.25)
EXACT = 1e-5
"""Of the largest log-prob and of the largest gradient, in float32."""
DRAWN = 1e-4
"""Of a drawn token's log-prob, nats: the sampler's products have other shapes."""
ROUNDED = 0.1
"""Of log-probs in bfloat16, in units of the largest: a number has 8 bits."""


def plain(model, ids):
    """Log-probs of a row's next tokens by the model's own forward."""
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
    return torch.log_softmax(logits.float(), -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def ours(model, sharing):
    scores = completion_scores(
        model, PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0, sharing=sharing
    )
    return scores.logprobs[scores.mask]


def theirs(model):
    rows = zip(PROMPTS, COMPLETIONS, strict=True)
    return torch.cat([plain(model, [*p, *c])[len(p) - 1 :] for p, c in rows])


def weighted(values):
    rows = [torch.full((len(c),), w) for c, w in zip(COMPLETIONS, WEIGHTS, strict=True)]
    return (values * torch.cat(rows)).sum()


def agrees(model, sharing, *, tolerance=EXACT):
    """Whether values and gradients are those of plain transformers."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    mine, other = ours(model, sharing), theirs(model)
    if float((mine - other).detach().abs().max()) > tolerance * float(other.detach().abs().max()):
        return False
    found = [torch.autograd.grad(weighted(x), parameters, allow_unused=True) for x in (mine, other)]
    largest = max(float(g.abs().max()) for g in found[1] if g is not None)
    gaps = [
        float((a - b).abs().max())
        for a, b in zip(*found, strict=True)
        if a is not None and b is not None
    ]
    return max(gaps) <= tolerance * largest


def of_forward(model, *, tolerance=EXACT):
    """The cell of a forward: shared, or why not, and whether it runs unshared then."""
    refusal = packing_support(model).refusal
    if refusal is None:
        assert agrees(model, "always", tolerance=tolerance)
        return "shared"
    assert agrees(model, "never", tolerance=tolerance)
    return f"unshared: {refusal}"


def of_sampler(model, tokenizer):
    """The cell of the sampler, whose log-probs are compared with a plain forward's."""
    schema = tuple(range(3, 21))
    requests = [
        SampleRequest(problem_id=name, prompt_ids=(*schema, *own), samples=3)
        for name, own in (("a", (5, 9)), ("b", (4,)))
    ]
    parameters = SamplingParameters(max_tokens=6, stop_token_ids=(1,))
    drawn = TorchSampler(model, tokenizer).sample(requests, parameters, seed=0)
    for request, completions in zip(requests, drawn, strict=True):
        for completion in completions:
            with torch.no_grad():
                scores = plain(model, [*request.prompt_ids, *completion.token_ids])
            scores = scores[len(request.prompt_ids) - 1 :]
            assert torch.allclose(scores, torch.tensor(completion.logprobs), atol=DRAWN)
    with torch.no_grad():
        refusal = sharing_refusal(model) or window_refusal(model, 20 + 6)
    return "shared" if refusal is None else f"unshared: {refusal}"


def row_of(name, directory, tokenizer):
    save_architecture(name, directory)
    attention = attention_of(name)
    model = load_model(directory, device="cpu", attention=attention)
    cells = [of_forward(model), of_sampler(model, tokenizer)]
    add_adapter(model, adapter(rank=2), base="base", seed=0)
    cells.append("yes" if of_forward(moved(model)) == cells[0] else "no")
    narrow = load_model(directory, device="cpu", attention=attention, weights="bfloat16")
    assert {p.dtype for p in narrow.parameters()} == {torch.bfloat16}
    cells.append("yes" if of_forward(narrow, tolerance=ROUNDED) == cells[0] else "no")
    return f"| {name} | {' | '.join(cells)} |"


@pytest.mark.slow
def test_the_document_says_what_is_found(tmp_path, tokenizer):
    rows = [
        row_of(name, tmp_path / str(number), tokenizer) for number, name in enumerate(ARCHITECTURES)
    ]
    head = "| architecture | training forward | sampler | adapter | weights in bfloat16 |"
    table = "\n".join([head, "|---|---|---|---|---|", *rows])
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    written = f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"
    if os.environ.get("DPH_WRITE_DOCS"):
        DOCUMENT.write_text(written)
    assert written == DOCUMENT.read_text()
    assert "untested" not in text

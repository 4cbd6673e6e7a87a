"""Scores of given answers under a model, and two models compared on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from dph.loss.divergences.base import categorical_kl
from dph.model.forward.logprobs import (
    CompletionScores,
    Written,
    completion_hidden,
    completion_logits,
    completion_scores,
    layout_of,
)
from dph.model.forward.over_vocabulary import (
    HeadWeights,
    blocks,
    log_table,
    plain_head,
    product_dtype,
)
from dph.model.forward.sharing import Sharing, plan_microbatches
from dph.model.loading import autocast, evaluating


@dataclass(frozen=True, slots=True)
class NextTokens:
    """Statistics of a model at each completion token, row after row, without gradient.

    With a head ``states`` are hidden states and blocks are computed when they are asked for;
    without one they are the log-probs themselves.
    """

    states: Float[Tensor, "positions size"]
    head: HeadWeights | None

    @torch.no_grad()
    def logprobs(
        self, positions: slice | Int[Tensor, "positions"]
    ) -> Float[Tensor, "positions vocabulary"]:
        """Log-probs (nats) of the whole vocabulary at some positions."""
        states = self.states[positions]
        return states if self.head is None else log_table(states, self.head)


@torch.no_grad()
def next_tokens(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    sharing: Sharing = "auto",
    written: Written = None,
) -> NextTokens:
    """The distributions that ``model`` has at ``temperature`` at every completion token.

    Computed as: hidden states are kept, not tables, where the logits are the head's products and
    nothing more. Models that do something to their logits afterwards give whole tables. Of rows
    that ``written`` describes, only the tokens that the model wrote.
    """
    with evaluating(model):
        layout = layout_of(
            model, prompts, completions, pad_id=pad_id, sharing=sharing, written=written
        )
        head = plain_head(model)
        if head is None:
            logits = completion_logits(model, layout)
            return NextTokens(torch.log_softmax(logits / temperature, dim=-1), None)
        hidden = completion_hidden(model, layout)
        weights = HeadWeights(head.weight, head.bias, temperature, product_dtype(hidden))
        return NextTokens(hidden, weights)


@dataclass(frozen=True, slots=True)
class ComparedTokens:
    """Statistics of two models at each token of an answer, nats.

    ``logprobs`` and ``ref_logprobs`` are those of the tokens themselves. The others are sums over
    the whole vocabulary: the policy's ``entropy``, ``reverse_kl`` = KL(policy || reference) and
    ``forward_kl`` = KL(reference || policy).
    """

    logprobs: tuple[float, ...]
    ref_logprobs: tuple[float, ...]
    entropy: tuple[float, ...]
    reverse_kl: tuple[float, ...]
    forward_kl: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.logprobs)


def _columns(
    mine: NextTokens, theirs: NextTokens, tokens: Int[Tensor, "positions"], vocabulary: int
) -> Float[Tensor, "positions five"]:
    """Statistics of every position, a block at a time."""
    found = [torch.zeros(0, 5, device=tokens.device)]
    for positions in blocks(len(tokens), vocabulary):
        p, q = mine.logprobs(positions), theirs.logprobs(positions)
        chosen = (table.gather(1, tokens[positions, None])[:, 0] for table in (p, q))
        # Mask first: 0 * -inf is NaN.
        entropy = -(p.exp() * p.masked_fill(p == -torch.inf, 0.0)).sum(dim=-1)
        columns = [*chosen, entropy, categorical_kl(p, q), categorical_kl(q, p)]
        found.append(torch.stack(columns, dim=1).float())
    return torch.cat(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerScorer:
    """Scoring of answers under any model.

    Attributes:
        pad_id: the token that fills rows.
        temperature: of the distributions.
        dtype: of the computation.
        token_budget: tokens that one forward pass computes at most.
        sharing: whether rows share what they begin with.
    """

    pad_id: int
    temperature: float
    dtype: str
    token_budget: int
    sharing: Sharing = "auto"

    def logprobs(
        self,
        model: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        completions: Sequence[Sequence[int]],
        *,
        temperature: float | None = None,
        written: Written = None,
    ) -> list[tuple[float, ...]]:
        """Log-probs (nats) of every completion token, row by row, in the order given.

        ``temperature`` takes the place of the scorer's own. Of rows that ``written`` describes,
        only the tokens that the model wrote. The forward is that of training, so that a policy with
        the same weights scores a ratio of 1 up to rounding.
        """
        temperature = self.temperature if temperature is None else temperature
        scored: list[tuple[Sequence[int], CompletionScores]] = []
        with evaluating(model):
            for batch in plan_microbatches(
                model, prompts, completions, token_budget=self.token_budget, sharing=self.sharing
            ):
                with torch.no_grad(), autocast(model, self.dtype):
                    scores = completion_scores(
                        model,
                        [prompts[row] for row in batch.rows],
                        [completions[row] for row in batch.rows],
                        temperature=temperature,
                        pad_id=self.pad_id,
                        sharing=batch.sharing,
                        forest=batch.forest,
                        written=None if written is None else [written[row] for row in batch.rows],
                    )
                scored.append((batch.rows, scores))
        found: list[tuple[float, ...]] = [()] * len(prompts)
        for rows, scores in scored:  # read at the end: a GPU has all of its work by then
            values = scores.logprobs.tolist()
            for row, length, of_row in zip(rows, scores.lengths, values, strict=True):
                found[row] = tuple(of_row[:length])
        return found

    @torch.no_grad()
    def compared(
        self,
        policy: PreTrainedModel,
        reference: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        completions: Sequence[Sequence[int]],
        written: Written = None,
    ) -> list[ComparedTokens]:
        """Compare two models on every token of some answers, answer by answer, in the order given.

        Of rows that ``written`` describes, on the tokens that the policy wrote.

        Equation: entropy = -sum over v of pi(v) log pi(v); reverse_kl = sum of pi(v) log(pi(v) /
        ref(v)); forward_kl = sum of ref(v) log(ref(v) / pi(v)), each over the whole vocabulary, at
        the tokens before v.
        Computed as: one forward of each model, the same as in training, then both tables of
        log-probs a block of positions at a time.
        Units: nats a token, at ``temperature``.
        Limits: both divergences are 0, to the bit, where the two models are the same.
        Accuracy: float32; a sum over the vocabulary of differences that round by 1e-7 each.
        """
        found: dict[int, ComparedTokens] = {}
        vocabulary = policy.config.get_text_config().vocab_size
        for batch in plan_microbatches(
            policy, prompts, completions, token_budget=self.token_budget, sharing=self.sharing
        ):
            answers = [completions[row] for row in batch.rows]
            flags = None if written is None else [written[row] for row in batch.rows]
            own = [
                ids if mine is None else [*compress(ids, mine)]
                for ids, mine in zip(answers, flags or [None] * len(answers), strict=True)
            ]
            with autocast(policy, self.dtype):
                mine, theirs = (
                    next_tokens(
                        model,
                        [prompts[row] for row in batch.rows],
                        answers,
                        temperature=self.temperature,
                        pad_id=self.pad_id,
                        sharing=batch.sharing,
                        written=flags,
                    )
                    for model in (policy, reference)
                )
            tokens = torch.tensor([token for ids in own for token in ids], device=policy.device)
            columns = _columns(mine, theirs, tokens, vocabulary).cpu()
            parts = torch.split(columns, [len(ids) for ids in own])
            for row, part in zip(batch.rows, parts, strict=True):
                found[row] = ComparedTokens(*map(tuple, part.T.tolist()))
        return [found[row] for row in range(len(prompts))]

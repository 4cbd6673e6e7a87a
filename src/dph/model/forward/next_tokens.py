"""A frozen model's next-token distributions at the tokens of completions, a block at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from dph.model.forward.layout import completion_hidden, completion_logits, layout_of
from dph.model.forward.over_vocabulary import HeadWeights, head_weights, log_table
from dph.model.forward.plain_head import plain_head
from dph.model.forward.prefix_tree import Node
from dph.model.forward.sharing import Sharing
from dph.model.modes import evaluating


@dataclass(frozen=True, slots=True)
class NextTokens:
    """What a model says of each completion token, row after row, without gradient.

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
    forest: Sequence[Node] | None = None,
) -> NextTokens:
    """The distributions that ``model`` has at ``temperature`` at every completion token.

    Computed as: hidden states are kept, not tables, where the logits are the head's products and
    nothing more. Models that do something to their logits afterwards give whole tables. ``forest``
    are the trees of these rows, where a plan has built them already.

    Raises:
        DataError: a prompt is empty, or there are not as many prompts as completions.
        ModelError: as ``completion_scores``.
    """
    with evaluating(model):
        layout = layout_of(
            model, prompts, completions, pad_id=pad_id, sharing=sharing, forest=forest
        )
        head = plain_head(model)
        if head is None:
            logits = completion_logits(model, layout)
            return NextTokens(torch.log_softmax(logits / temperature, dim=-1), None)
        hidden = completion_hidden(model, layout)
        return NextTokens(hidden, head_weights(head, temperature, like=hidden))

"""Whether rows share their beginnings in the training forward: decided by what it would cost."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakSet

from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.forward.microbatches import microbatches, packed_microbatches
from dph.model.forward.packing_support import packing_support
from dph.model.forward.prefix_tree import Node, fed, prefix_forest

_LOG = logging.getLogger(__name__)
_warned: WeakSet[PreTrainedModel] = WeakSet()

Sharing = Literal["auto", "always", "never"]

_ATTENTION_SLOWNESS = 2.0
"""Time of a floating-point operation in attention over one in a matrix product."""
_GROUP = 2e6
"""Operations of a matrix product that take as long as a stem's own kernel calls in a layer."""


@dataclass(frozen=True, slots=True)
class Microbatch:
    """Rows of one forward pass."""

    rows: list[int]
    forest: Sequence[Node] | None
    """The trees of the rows, numbered in their order; None where they run padded."""

    @property
    def packed(self) -> bool:
        """Whether the rows run as one packed sequence."""
        return self.forest is not None

    @property
    def sharing(self) -> Sharing:
        """The setting that makes ``completion_scores`` do as planned."""
        return "always" if self.packed else "never"


def plan_microbatches(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    token_budget: int,
    sharing: Sharing,
) -> list[Microbatch]:
    """Micro-batches of at most ``token_budget`` computed tokens that hold every row once.

    A single row that is longer gets a micro-batch of its own.

    Raises:
        SettingsError: ``token_budget`` is below 1.
        ModelError: ``sharing`` is "always", but the model cannot.
    """
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    padded = microbatches(lengths, token_budget=token_budget)
    forest = _forest(model, prompts, completions, sharing, padded, known=None)
    if forest is None:
        return [Microbatch(rows, forest=None) for rows in padded]
    packed = packed_microbatches(prompts, completions, token_budget=token_budget, forest=forest)
    return [Microbatch(batch.rows, forest=batch.forest) for batch in packed]


def forest_to_pack(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    sharing: Sharing,
    *,
    known: Sequence[Node] | None = None,
) -> Sequence[Node] | None:
    """The trees of rows that run packed when they are all there is in a forward, or None.

    ``known`` are the trees of these rows, where a plan has built them already.

    Raises:
        ModelError: ``sharing`` is "always", but the model cannot.
    """
    return _forest(model, prompts, completions, sharing, [list(range(len(prompts)))], known=known)


def _forest(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    sharing: Sharing,
    padded: Sequence[Sequence[int]],
    *,
    known: Sequence[Node] | None,
) -> Sequence[Node] | None:
    """The trees of the rows if they run packed; ``padded`` are the micro-batches if they do not."""
    if sharing == "never" or not prompts:
        return None
    if sharing == "always":
        _packs(model, prompts, completions, required=True)
    forest = prefix_forest(fed(prompts, completions)) if known is None else known
    if sharing == "always":
        return forest
    cheaper = _packed_is_cheaper(model, prompts, completions, padded, forest)
    return forest if cheaper and _packs(model, prompts, completions, required=False) else None


def _packs(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    required: bool,
) -> bool:
    """Whether the model can run these rows packed; an error where it cannot and is ``required``."""
    support = packing_support(model, prompts)
    longest = max(len(p) + len(c) for p, c in zip(prompts, completions, strict=True))
    refusal = support.refusal
    if refusal is None and longest > support.window:
        refusal = f"a row has {longest} tokens, a layer attends to the last {support.window:g}"
        if model not in _warned:
            _warned.add(model)
            _LOG.warning("%s: prompts are not always shared: %s", type(model).__name__, refusal)
    if required and refusal is not None:
        raise ModelError(
            f"prompts cannot be shared in the forward of {type(model).__name__}: {refusal}; "
            'set train.shared_prompts to "auto" or "never"'
        )
    return refusal is None


def _packed_is_cheaper(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    padded: Sequence[Sequence[int]],
    forest: Sequence[Node],
) -> bool:
    """Compare modelled times, in operations of matrix products of a forward pass.

    Padded: every row as long as the longest of its micro-batch. Packed: each token once, and
    some more kernel calls per layer for each tree and stem. The head costs the same both ways.
    """
    config = model.config.get_text_config()
    layers = config.num_hidden_layers
    token = 2 * _layer_weights(model)
    pair = 4 * config.hidden_size * layers * _ATTENTION_SLOWNESS
    plain = 0.0
    for rows in padded:
        width = max(len(prompts[row]) + len(completions[row]) for row in rows)
        plain += len(rows) * (width * token + width**2 / 2 * pair)
    packed = 0.0
    for root in forest:
        calls = layers * max(1, root.stems) * _GROUP
        packed += root.tokens * token + _pairs(root) * pair + calls
    return packed < plain


def _pairs(node: Node) -> float:
    """Pairs of tokens of which one attends to the other."""
    own = node.length * (node.start + node.length / 2)
    return own + sum(_pairs(child) for child in node.children)


def _layer_weights(model: PreTrainedModel) -> int:
    embeddings = (model.get_input_embeddings(), model.get_output_embeddings())
    left_out = {id(p) for part in embeddings if part is not None for p in part.parameters()}
    return sum(p.numel() for p in model.parameters() if p.dim() > 1 and id(p) not in left_out)

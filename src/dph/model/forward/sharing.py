"""Decide by cost if rows share their beginnings in the training forward."""

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import (
    Ids,
    Microbatch,
    Node,
    fed,
    microbatches,
    pack,
    packed_microbatches,
    prefix_forest,
)
from dph.model.forward.probing import (
    DRAWS,
    MOST,
    Row,
    last_logits,
    own_logits,
    probe_tokens,
    rounded_anew,
)
from dph.model.loading import evaluating
from dph.model.releases import attending, attention_window

_LOG = logging.getLogger(__name__)

_PROMPTS = ((3, 1, 4, 1, 5), (3, 1, 4, 1, 5), (3, 1, 4, 7), (9, 2))
_COMPLETIONS = ((2, 6, 5), (3, 5), (6, 4), (8, 9, 7))
"""Of which tokens of a probe."""
_LEAST_DRAWS = 2
"""Roundings after which gradients may agree; if they do not, there are more, up to `DRAWS`."""


@dataclass(frozen=True, slots=True)
class Support:
    """A model's support of packed rows: the reason against it, and how long they may be."""

    refusal: str | None
    """The reason why it does not; None if it does."""
    window: float
    """Tokens that every layer attends to at least."""


class _Probe(NamedTuple):
    """Four rows: two prompts are the same, a third begins like them."""

    prompts: list[list[int]]
    completions: list[list[int]]

    def packed(self, model: PreTrainedModel) -> list[Tensor]:
        """Each row's logits for its completion, of one packed pass."""
        rows = pack(self.prompts, self.completions, device=model.device, least_saved=0)
        with attending(model, PackedAttention(rows)):
            output = model(
                input_ids=rows.ids[None],
                position_ids=rows.positions[None],
                attention_mask=torch.ones_like(rows.ids)[None],
                use_cache=False,
            )
        logits: Tensor = output.logits[0].index_select(0, rows.sources)
        return list(torch.split(logits, [len(completion) for completion in self.completions]))

    def rows(self) -> list[Row]:
        """The model's input of each row, and the number of its last tokens that predict."""
        return [
            ([*prompt, *completion][:-1], len(completion))
            for prompt, completion in zip(self.prompts, self.completions, strict=True)
        ]


_known: WeakKeyDictionary[PreTrainedModel, dict[Any, Support]] = WeakKeyDictionary()


def packing_support(model: PreTrainedModel, prompts: Sequence[Ids] = ()) -> Support:
    """True if packed rows give this model's own values and gradients.

    Computed as: static checks, then four short rows of tokens of ``prompts``, once packed and once
    padded, which may differ by rounding (`OwnLogits`). That finds ALiBi, attention sinks, attention
    outside transformers' registry, and other special cases. Gradients are compared only if
    something may go wrong with them: under gradient checkpointing, and on devices other than a CPU;
    never for a frozen model. On such devices, and within autocast, everything is checked in
    bfloat16 as well. The result is remembered for each mode of the model, and a refusal is logged
    once.
    """
    device = model.device.type
    checkpointing = model.training and any(
        getattr(module, "gradient_checkpointing", False) for module in model.modules()
    )
    trainable = any(parameter.requires_grad for parameter in model.parameters())
    rounds = device != "cpu" or torch.is_autocast_enabled(device)
    mode = (checkpointing, model.training and _dropout(model) > 0, trainable, rounds, model.device)
    known = _known.setdefault(model, {})
    if mode not in known:
        tokens = probe_tokens(model.config, prompts)
        probe = _Probe(
            *([[tokens[i] for i in row] for row in rows] for rows in (_PROMPTS, _COMPLETIONS))
        )
        unsure = checkpointing or device != "cpu"
        support = _support(model, probe, rounds=rounds, gradients=trainable and unsure)
        if support.refusal and all(support.refusal != other.refusal for other in known.values()):
            _LOG.warning(
                "%s: prompts are not shared in the training forward: %s",
                *(type(model).__name__, support.refusal),
            )
        known[mode] = support
    return known[mode]


def _support(model: PreTrainedModel, probe: _Probe, *, rounds: bool, gradients: bool) -> Support:
    window = attention_window(model)
    refusal = _static_refusal(model, window)
    for rounded in (False, True) if rounds else (False,):
        with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=rounded):
            if refusal is None:
                with evaluating(model):
                    refusal = _refusal_of_values(model, probe)
                torch.clear_autocast_cache()  # torch 2.8 reuses its copies, without gradient
            if refusal is None and gradients:
                refusal = _refusal_of_gradients(model, probe)
            torch.clear_autocast_cache()
    return Support(refusal, window)


def _static_refusal(model: PreTrainedModel, window: float) -> str | None:
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return "its forward takes no position_ids"
    if window < max(map(len, _PROMPTS)) + max(map(len, _COMPLETIONS)):
        return f"a layer attends to the last {window:g} tokens only"
    if model.training and _dropout(model) > 0:
        return "it trains with dropout"
    return None


def _dropout(model: PreTrainedModel) -> float:
    rates = vars(model.config.get_text_config())
    return max(
        (r for name, r in rates.items() if "drop" in name and isinstance(r, float)), default=0
    )


def _refusal_of_values(model: PreTrainedModel, probe: _Probe) -> str | None:
    with torch.no_grad():
        try:
            packed = probe.packed(model)
        except torch.OutOfMemoryError:
            raise
        except (ModelError, KeyError, TypeError, RuntimeError) as error:
            return str(error)
        own = own_logits(model, probe.rows())
        if all(alone.agree_with(ours) for alone, ours in zip(own, packed, strict=True)):
            return None
    return "packed rows change its values"


def _refusal_of_gradients(model: PreTrainedModel, probe: _Probe) -> str | None:
    """A layer may be recomputed with its own attention."""
    with torch.enable_grad():
        try:
            ours = _gradients(model, probe.packed(model), probe)
        except torch.OutOfMemoryError:
            raise
        except (ModelError, RuntimeError) as error:
            return f"in its backward pass, {error}"
        own = _gradients(model, last_logits(model, probe.rows()), probe)
        lost = torch.stack(torch._foreach_norm(own)).isnan()  # refused where they are used
        apart = _distances(ours, own)
        moved = torch.zeros_like(apart)
        del ours
        for draw in range(1, DRAWS + 1):
            with rounded_anew(model, draw):
                again = last_logits(model, probe.rows())
                moved += _distances(_gradients(model, again, probe), own).square()
            close = apart <= MOST * (moved / draw).sqrt()
            if draw >= _LEAST_DRAWS and (close | lost).all():
                return None
    return "packed rows change its gradients (is a different attention recomputed?)"


def _gradients(model: PreTrainedModel, logits: Sequence[Tensor], probe: _Probe) -> list[Tensor]:
    """Gradients of the sum of the probe's log-probs, by every parameter that is trained."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    table = torch.cat([row.flatten(end_dim=-2) for row in logits]).float()
    targets = torch.tensor([[t] for c in probe.completions for t in c]).to(table.device)
    score = torch.log_softmax(table, dim=-1).gather(1, targets).sum()
    return list(torch.autograd.grad(score, parameters, materialize_grads=True))


def _distances(found: list[Tensor], wanted: list[Tensor]) -> Float[Tensor, "parameters"]:
    """Distance between the gradients of each parameter; takes the memory of ``found``."""
    torch._foreach_sub_(found, wanted)
    return torch.stack(torch._foreach_norm(found)).float()


_warned: WeakSet[PreTrainedModel] = WeakSet()

Sharing = Literal["auto", "always", "never"]

_ATTENTION_SLOWNESS = 2.0
"""Time of a floating-point operation in attention over one in a matrix product."""
_GROUP = 2e6
"""Operations of a matrix product that take as long as a stem's own kernel calls in a layer."""
_LEVEL = 1e9
"""The same on a GPU, of all stems of a level together, which are seven kernels: ten microseconds,
at 1e14 operations a second."""


def plan_microbatches(
    model: PreTrainedModel,
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    token_budget: int,
    sharing: Sharing,
) -> list[Microbatch]:
    """Micro-batches of at most ``token_budget`` computed tokens that hold every row once.

    A longer row gets its own micro-batch.
    """
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    padded = microbatches(lengths, token_budget=token_budget)
    forest = forest_to_pack(model, prompts, completions, sharing, padded=padded)
    if forest is None:
        return [Microbatch(rows, forest=None) for rows in padded]
    return packed_microbatches(prompts, completions, token_budget=token_budget, forest=forest)


def forest_to_pack(
    model: PreTrainedModel,
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    sharing: Sharing,
    *,
    padded: Sequence[Sequence[int]] | None = None,
    known: Sequence[Node] | None = None,
) -> Sequence[Node] | None:
    """The trees of the rows if they run packed, or None.

    ``padded`` are the micro-batches if they do not [default: one of all rows], ``known`` the trees
    if a plan has built them already.
    """
    if sharing == "never" or not prompts:
        return None
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    if sharing == "always" and (refusal := _refusal(model, prompts, max(lengths))):
        raise ModelError(
            f"prompts cannot be shared in the forward of {type(model).__name__}: {refusal}; "
            'set train.shared_prompts to "auto" or "never"'
        )
    forest = prefix_forest(fed(prompts, completions)) if known is None else known
    if sharing == "always":
        return forest
    cheaper = _packed_is_cheaper(model, lengths, padded or [range(len(prompts))], forest)
    return forest if cheaper and _refusal(model, prompts, max(lengths)) is None else None


def _refusal(model: PreTrainedModel, prompts: Sequence[Ids], longest: int) -> str | None:
    """The reason why rows of at most ``longest`` tokens do not run packed; or None."""
    support = packing_support(model, prompts)
    if support.refusal is not None or longest <= support.window:
        return support.refusal
    refusal = f"a row has {longest} tokens, a layer attends to the last {support.window:g}"
    if model not in _warned:
        _warned.add(model)
        _LOG.warning("%s: prompts are not always shared: %s", type(model).__name__, refusal)
    return refusal


def _packed_is_cheaper(
    model: PreTrainedModel,
    lengths: Sequence[int],
    padded: Sequence[Sequence[int]],
    forest: Sequence[Node],
) -> bool:
    """Compare modelled times, in operations of matrix products of a forward pass.

    Padded: every row as long as the longest of its micro-batch. Packed: each token once, and
    some more kernel calls per layer, on a CPU for each tree and stem, on a GPU for each level of
    stems. The head costs the same both ways.
    """
    config = model.config.get_text_config()
    layers = config.num_hidden_layers
    embeddings = (model.get_input_embeddings(), model.get_output_embeddings())
    left_out = {id(p) for part in embeddings if part is not None for p in part.parameters()}
    weights = (p for p in model.parameters() if p.dim() > 1 and id(p) not in left_out)
    token = 2 * sum(p.numel() for p in weights)
    pair = 4 * config.hidden_size * layers * _ATTENTION_SLOWNESS
    plain = 0.0
    for rows in padded:
        width = max(lengths[row] for row in rows)
        plain += len(rows) * (width * token + width**2 / 2 * pair)
    stems = sum(max(1, root.stems) for root in forest)
    calls = _levels(forest) * _LEVEL if model.device.type == "cuda" else stems * _GROUP
    packed: float = layers * calls
    packed += sum(root.tokens * token + _pairs(root) * pair for root in forest)
    return packed < plain


def _levels(nodes: Sequence[Node]) -> int:
    """Stems above the token that has the most of them."""
    return max((1 + _levels(node.children) for node in nodes if node.children), default=0)


def _pairs(node: Node) -> float:
    """Pairs of tokens of which one attends to the other."""
    own = node.length * (node.start + node.length / 2)
    return own + sum(_pairs(child) for child in node.children)

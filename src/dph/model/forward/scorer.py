"""The scoring of given answers in a run: one record of everything that its numbers depend on."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from dph.model.forward.compared import ComparedTokens, compared_tokens
from dph.model.forward.layout import Written
from dph.model.forward.logprobs import score_completions
from dph.model.forward.sharing import Sharing


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
        """Log-probs (nats) of every completion token (``score_completions``).

        ``temperature`` takes the place of the scorer's own; ``written`` says whose tokens they are.
        """
        return score_completions(
            model,
            prompts,
            completions,
            temperature=self.temperature if temperature is None else temperature,
            pad_id=self.pad_id,
            token_budget=self.token_budget,
            dtype=self.dtype,
            sharing=self.sharing,
            written=written,
        )

    def compared(
        self,
        policy: PreTrainedModel,
        reference: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        completions: Sequence[Sequence[int]],
        written: Written = None,
    ) -> list[ComparedTokens]:
        """Two models on every token of some answers (``compared_tokens``)."""
        return compared_tokens(
            policy,
            reference,
            prompts,
            completions,
            temperature=self.temperature,
            pad_id=self.pad_id,
            token_budget=self.token_budget,
            dtype=self.dtype,
            sharing=self.sharing,
            written=written,
        )

"""The training forward: log-probs of completions, with shared beginnings computed once.

The log-probs of a large vocabulary without its logits are a module of the same name:
``from dph.forward.selected_logprobs import selected_logprobs``.
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.forward.logprobs import CompletionScores, completion_scores
    from dph.forward.scoring import score_completions
    from dph.forward.sharing import Microbatch, Sharing, plan_microbatches

__all__ = [
    "CompletionScores",
    "Microbatch",
    "Sharing",
    "completion_scores",
    "plan_microbatches",
    "score_completions",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CompletionScores": "dph.forward.logprobs",
        "Microbatch": "dph.forward.sharing",
        "Sharing": "dph.forward.sharing",
        "completion_scores": "dph.forward.logprobs",
        "plan_microbatches": "dph.forward.sharing",
        "score_completions": "dph.forward.scoring",
    },
)

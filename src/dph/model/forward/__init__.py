"""The training forward: log-probs of completions, with shared beginnings computed once.

The log-probs of a large vocabulary without its logits are a module of the same name:
``from dph.model.forward.selected_logprobs import selected_logprobs``.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.model.forward.logprobs import CompletionScores, completion_scores, score_completions
    from dph.model.forward.sharing import Microbatch, Sharing, plan_microbatches

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
        "CompletionScores": "dph.model.forward.logprobs",
        "Microbatch": "dph.model.forward.sharing",
        "Sharing": "dph.model.forward.sharing",
        "completion_scores": "dph.model.forward.logprobs",
        "plan_microbatches": "dph.model.forward.sharing",
        "score_completions": "dph.model.forward.logprobs",
    },
)

"""The training forward: log-probs of completions, with shared beginnings computed once.

``from dph.model.forward.logprobs import completion_scores``. The log-probs of a large vocabulary
without its logits are in `dph.model.forward.over_vocabulary`.
"""

"""The training forward: log-probs of completions, with shared beginnings computed once.

The log-probs of a large vocabulary without its logits are a module of the same name:
``from dph.model.forward.selected_logprobs import selected_logprobs``.
"""

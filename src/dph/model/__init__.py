"""Models and tokenizers: loading, fingerprints and prompts."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.model.loading import load_config, load_model, load_tokenizer
    from dph.model.policies import interpolated_weights, tokenizer_fingerprint, weight_fingerprint
    from dph.model.prompts import TurnEncoder, chat_messages, encode_prompt, stop_token_ids

__all__ = [
    "TurnEncoder",
    "chat_messages",
    "encode_prompt",
    "interpolated_weights",
    "load_config",
    "load_model",
    "load_tokenizer",
    "stop_token_ids",
    "tokenizer_fingerprint",
    "weight_fingerprint",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "TurnEncoder": "dph.model.prompts",
        "chat_messages": "dph.model.prompts",
        "encode_prompt": "dph.model.prompts",
        "interpolated_weights": "dph.model.policies",
        "load_config": "dph.model.loading",
        "load_model": "dph.model.loading",
        "load_tokenizer": "dph.model.loading",
        "stop_token_ids": "dph.model.prompts",
        "tokenizer_fingerprint": "dph.model.policies",
        "weight_fingerprint": "dph.model.policies",
    },
)

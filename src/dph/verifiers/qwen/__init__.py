"""The mathematics verifier ``math_qwen``: what the Qwen2.5-Math evaluation tool would say."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.verifiers.qwen.verifier import MathQwenVerifier

__all__ = [
    "MathQwenVerifier",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MathQwenVerifier": "dph.verifiers.qwen.verifier",
    },
)

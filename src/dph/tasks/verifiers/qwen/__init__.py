"""The mathematics verifier ``math_qwen``: what the Qwen2.5-Math evaluation tool would say."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier

__all__ = [
    "MathQwenVerifier",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MathQwenVerifier": "dph.tasks.verifiers.qwen.verifier",
    },
)

"""A small random model in the place of SmolLM2."""

from random_language_model import (  # noqa: F401
    language_model,
    language_model_is_found,
)

"""Keeping the libraries below from talking over our own output."""

import os
import warnings


def quiet_libraries() -> None:
    """Silence progress bars and advice of transformers and torch, for this process."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", module=r"(torch|transformers|huggingface_hub)(\.|$)")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()

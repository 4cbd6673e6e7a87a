"""Progress bars of huggingface_hub, for people alone."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)


@contextmanager
def bars_for_people() -> Iterator[None]:
    """No progress bars where stderr is no terminal, unless HF_HUB_DISABLE_PROGRESS_BARS decides."""
    decided = constants.HF_HUB_DISABLE_PROGRESS_BARS is not None or are_progress_bars_disabled()
    if decided or sys.stderr.isatty():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()

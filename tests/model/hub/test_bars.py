import sys

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from dph.model.hub_cache import bars_for_people


@pytest.fixture(autouse=True)
def _shown(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", None)
    before = are_progress_bars_disabled()
    enable_progress_bars()
    yield
    if before:
        disable_progress_bars()


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_shown_on_a_terminal_alone_and_afterwards_as_before(monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with bars_for_people():
        assert are_progress_bars_disabled() is not terminal
    assert not are_progress_bars_disabled()


def test_what_was_switched_off_stays_off(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    disable_progress_bars()
    with bars_for_people():
        assert are_progress_bars_disabled()
    assert are_progress_bars_disabled()

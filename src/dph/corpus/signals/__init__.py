"""Signals: numbers about one file's text, each a small pure function of its parts."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.corpus.signals.measuring import SignalValues, measure, signal_groups
    from dph.corpus.signals.view import FileView
    from dph.corpus.signals.words import SignalError

__all__ = [
    "FileView",
    "SignalError",
    "SignalValues",
    "measure",
    "signal_groups",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FileView": "dph.corpus.signals.view",
        "SignalValues": "dph.corpus.signals.measuring",
        "SignalError": "dph.corpus.signals.words",
        "measure": "dph.corpus.signals.measuring",
        "signal_groups": "dph.corpus.signals.measuring",
    },
)

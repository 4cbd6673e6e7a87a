"""All signals of a file: group by group, and a group ends with the first signal that fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dph.corpus.signals.code_signals import CODE_SIGNALS
from dph.corpus.signals.words import SignalError
from dph.corpus.signals.language_signals import LANGUAGE_SIGNALS
from dph.corpus.signals.shared_signals import Signal
from dph.corpus.signals.text_signals import TEXT_SIGNALS
from dph.corpus.signals.view import FileView


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of a file's signals, by name, and why those that are missing are.

    A signal without a value is None; those after a failure in its group are not there.
    """

    values: Mapping[str, float | None]
    failures: Mapping[str, str]


def signal_groups(doc_type: str, language: str) -> Sequence[Sequence[Signal]]:
    """The groups of signals that a kind of file gets."""
    match doc_type:
        case "text":
            return (TEXT_SIGNALS,)
        case "code" | "data":
            return (CODE_SIGNALS, LANGUAGE_SIGNALS.get(language, ()))
        case _:
            return ()


def measure(view: FileView, groups: Sequence[Sequence[Signal]]) -> Measured:
    """Measure every signal of ``groups``.

    A parser or lexer that gives up on the file, and a search that takes too long, end the group.
    """
    values: dict[str, float | None] = {}
    failures: dict[str, str] = {}
    for group in groups:
        for signal in group:
            try:
                values[signal.name] = signal(view)
            except SignalError as failure:
                values[signal.name], failures[signal.name] = None, str(failure)
                break
            except TimeoutError:  # of the regex module
                values[signal.name], failures[signal.name] = None, "the search took too long"
                break
    return Measured(values, failures)

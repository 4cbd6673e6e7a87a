"""The stage of filtering by its settings: loads nothing of the extra, which it asks for."""

from dph.corpus.extra import READING, require
from dph.corpus.rules.presets import load_preset
from dph.corpus.stage import StageSpec

_SECONDS = 300.0
"""For one document. Lexers and parsers take up to a minute for the largest."""


def filter_spec(preset: str) -> StageSpec:
    """The stage that filters by the rules of ``preset``.

    Raises:
        SettingsError: there is no such preset, or the extra ``corpus`` is not installed.
    """
    load_preset(preset)
    require(READING, "filter")
    return StageSpec(
        name="filter",
        entry="dph.corpus.rules.stage:make_filter",
        settings={"preset": preset},
        seconds=_SECONDS,
    )

"""The stage of filtering by its settings: loads nothing of the extra, which it asks for."""

from collections.abc import Mapping

from dph.corpus.rules.presets import load_preset
from dph.corpus.rules.stage import with_thresholds
from dph.corpus.stage import READING, StageSpec, require

_SECONDS = 300.0
"""For one document. Lexers and parsers take up to a minute for the largest."""


def filter_spec(preset: str, thresholds: Mapping[str, str] | None = None) -> StageSpec:
    """The stage that filters by the rules of ``preset``, with user-defined ``thresholds``.

    Raises:
        SettingsError: there is no such preset or rule, a condition cannot be read, or the extra
            ``corpus`` is not installed.
    """
    with_thresholds(load_preset(preset), thresholds or {})
    require(READING, "filter")
    return StageSpec(
        name="filter",
        entry="dph.corpus.rules.stage:make_filter",
        settings={"preset": preset} | ({"thresholds": dict(thresholds)} if thresholds else {}),
        seconds=_SECONDS,
    )

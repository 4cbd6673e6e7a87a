"""The stage of filtering by its settings: loads nothing of the extra, which it asks for."""

from collections.abc import Mapping
from pathlib import Path

from dph._base.files import sha256
from dph_corpus.rules.own import SUFFIX, fingerprints, open_preset
from dph_corpus.shards import digest
from dph_corpus.stage import StageSpec

_SECONDS = 300.0
"""For one document. Lexers and parsers take up to a minute for the largest."""


def filter_spec(preset: str, thresholds: Mapping[str, str] | None = None) -> StageSpec:
    """The stage that filters by the rules of ``preset``, with user-defined ``thresholds``.

    Args:
        preset: a name, or the path of a file of rules (``dph_corpus.rules.own``), which counts by
            its content and the code of its signals.
        thresholds: conditions in the place of the preset's.
    """
    found = open_preset(preset, thresholds)
    settings = {"preset": found.name} | ({"thresholds": dict(thresholds)} if thresholds else {})
    entry, inputs, files = "dph_corpus.rules.stage:make_filter", {}, {}
    if preset.endswith(SUFFIX):
        place = Path(preset).resolve()
        inputs = {"preset": sha256(place), "signals": digest(fingerprints(found))}
        files = {"preset": str(place)}
    return StageSpec(
        name="filter",
        entry=entry,
        settings=settings,
        version=2,
        inputs=inputs,
        files=files,
        seconds=_SECONDS,
    )

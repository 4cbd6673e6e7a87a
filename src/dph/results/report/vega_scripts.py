"""Vega, Vega-Lite and Vega-Embed as one script, out of vl-convert: nothing is fetched.

Putting the script together takes seconds and depends on vl-convert's version alone, so it is kept
in the user's cache directory (``XDG_CACHE_HOME``, else ``~/.cache``) as
``dph-rl/vega-<version>.js``.
"""

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dph._base.files import write_text
from dph.errors import SettingsError

NEEDED = "pip install 'dph-rl[report]'"


SERVER = ("starlette", "uvicorn")


def require_charts(*more: str) -> None:
    """Refuse to start on a report without the extra, or without ``more`` of its packages.

    Raises:
        SettingsError: altair, vl-convert-python or one of ``more`` is not installed.
    """
    for package in ("altair", "vl-convert-python", *more):
        try:
            version(package)
        except PackageNotFoundError as error:
            raise SettingsError(f"{package} is missing: {NEEDED}") from error


def vega_script() -> str:
    """The script, which puts ``vegaEmbed`` on the window."""
    kept = _cache() / f"vega-{version('vl-convert-python')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    import vl_convert  # noqa: PLC0415 - slow, and an extra

    # An element that holds a script ends at the first of these letters, whatever is around them.
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace(
        "</script", "<\\/script"
    )
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, script)
    except OSError:
        return script  # no cache directory that can be written: the next report takes as long
    return script


def _cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "dph-rl"

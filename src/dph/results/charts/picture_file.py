"""The kinds of pictures that are written, by suffix; nothing is drawn here."""

from pathlib import Path

from dph.errors import SettingsError

KINDS = ("png", "svg", "pdf")
"""The suffixes, without their dot."""


def require_picture(path: Path) -> str:
    """The kind of picture that the suffix of ``path`` names.

    Raises:
        SettingsError: it is not of ``KINDS``.
    """
    kind = path.suffix.removeprefix(".")
    if kind not in KINDS:
        raise SettingsError(f"a picture is a .png, .svg or .pdf file, got {path.name!r}")
    return kind

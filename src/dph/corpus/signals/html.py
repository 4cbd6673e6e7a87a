"""Visible text of HTML."""

import warnings

from bs4 import BeautifulSoup


def visible_text(text: str) -> str | None:
    """Text nodes outside scripts, styles, templates and comments, or None if it cannot be parsed.

    Nearly everything parses: only markup that ``html.parser`` rejects does not.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # XML, names of files: data all the same
            visible: str = BeautifulSoup(text, features="html.parser").get_text()
            return visible
    except Exception:  # noqa: BLE001 - the parser's own errors have no common class
        return None

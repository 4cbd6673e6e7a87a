"""The packages of the extra ``corpus``, asked for before a stage begins."""

from collections.abc import Mapping
from importlib.util import find_spec

from dph.errors import SettingsError

READING = {
    "pygments": "pygments",
    "regex": "regex",
    "bs4": "beautifulsoup4",
    "esprima": "esprima",
    "jieba": "jieba",
    "zhconv": "zhconv",
    "sqlglot": "sqlglot",
}
"""What signals read code and text with, by module."""
FINDING = {"detect_secrets": "detect-secrets"}
"""What secrets are found with, by module."""


def require(packages: Mapping[str, str], verb: str) -> None:
    """Make sure that ``packages`` are installed.

    Raises:
        SettingsError: some are not.
    """
    missing = [name for module, name in packages.items() if find_spec(module) is None]
    if missing:
        raise SettingsError(
            f"dph corpus {verb} needs {', '.join(missing)}: pip install 'dph-rl[corpus]'"
        )

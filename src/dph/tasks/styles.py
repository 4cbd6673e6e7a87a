"""Style classifiers by name: what "how many ways of answering are left" counts."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dph.errors import SettingsError
from dph.import_path import is_import_path, load_callable
from dph.tasks.sql_styles import sql_style

Style = Callable[[str], str]

STYLES: Mapping[str, Style] = MappingProxyType({"sql": sql_style})


def make_style(name: str | None) -> Style | None:
    """The classifier ``name``, the function at an import path ``module:function``, or None.

    Raises:
        SettingsError: no classifier has that name, or the function cannot be imported.
    """
    if name is None:
        return None
    if name in STYLES:
        return STYLES[name]
    if is_import_path(name):
        return load_callable(name)
    raise SettingsError(
        f"there is no style {name!r}; it is one of {', '.join(STYLES)}, "
        "or your own as 'module:function'"
    )

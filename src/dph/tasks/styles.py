"""Style classifiers by name: what "how many ways of answering are left" counts."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType

from dph._base.import_path import is_import_path, load_callable
from dph.errors import SettingsError, VerifierError
from dph.tasks.sql.styles import sql_style

Style = Callable[[str], str | None]
"""From a response to the name of its style; None where it has none."""

STYLES: Mapping[str, Style] = MappingProxyType({"sql": sql_style})


def make_style(name: str | None, modules: Sequence[Path] = ()) -> Style | None:
    """The classifier ``name``, the function at an import path ``module:function``, or None.

    ``modules`` are directories in which a function's module is looked for first.

    Raises:
        SettingsError: no classifier has that name, or the function cannot be imported.
    """
    if name is None:
        return None
    if name in STYLES:
        return STYLES[name]
    if is_import_path(name):
        return _guarded(name, load_callable(name, modules))
    raise SettingsError(
        f"there is no style {name!r}; it is one of {', '.join(STYLES)}, "
        "or your own as 'module:function'"
    )


def _guarded(name: str, function: Callable[[str], object]) -> Style:
    """The user's function, whose failures are told as its own."""

    @wraps(function)
    def style(response: str) -> str | None:
        try:
            found = function(response)
        except Exception as error:
            raise VerifierError(
                f"the style classifier {name!r} failed on {response!r:.80}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if found is not None and not isinstance(found, str):
            raise VerifierError(
                f"the style classifier {name!r} returned {found!r:.80} "
                f"({type(found).__name__}); a text or None is allowed"
            )
        return found

    return style

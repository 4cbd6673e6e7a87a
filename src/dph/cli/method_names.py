"""Method names as they are typed: ``grpo,dph_f``."""

import difflib

from dph.errors import SettingsError
from dph.settings import METHODS


def read_methods(text: str) -> tuple[str, ...]:
    """The methods of a comma-separated list, each once.

    Raises:
        SettingsError: a method is unknown, or there is none.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise SettingsError(f"--methods needs at least one of {', '.join(METHODS)}, got {text!r}")
    for name in names:
        if name not in METHODS:
            near = difflib.get_close_matches(name, METHODS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise SettingsError(
                f"unknown method {name!r}; {hint}The methods are {', '.join(METHODS)}"
            )
    return names

"""Values as Hydra's overrides have them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_NOT_TEXT = re.compile(r"(?i)true|false|null|nan|inf|[-+]?[0-9.][0-9.e+_-]*")
"""Words that Hydra would read as something else than text."""


def override(key: str, value: Any) -> str:
    r"""``key=value``; a mapping replaces what is there, with keys that need not have been there.

    >>> override("data.train_batch_size", 4), override("dph.databases", None)
    ('data.train_batch_size=4', 'dph.databases=null')
    >>> override("dph.system_prompt", "It's 5"), override("a", {"eps": 1e-08, "on": [True]})
    ("dph.system_prompt='It\\'s 5'", '++a={eps: 1e-08, on: [true]}')
    """
    return f"{'++' if isinstance(value, Mapping) else ''}{key}={hydra_value(value)}"


def hydra_value(value: Any) -> str:
    """A value; texts are quoted where they need it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {hydra_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(hydra_value, value)) + "]"
    text = str(value) if isinstance(value, Path) else value
    if _PLAIN.fullmatch(text) and not _NOT_TEXT.fullmatch(text):
        return str(text)
    # Backslashes count for Hydra only where they stand before a quote.
    quoted = re.sub(r"(\\*)'", r"\1\1\\'", text)
    end = re.search(r"\\*$", quoted)
    return f"'{quoted}{end[0] if end else ''}'"

"""Data inside a page: JSON, compressed, in letters that HTML leaves alone."""

import base64
import gzip
import json
from typing import Any


def packed(value: Any) -> str:
    """``value`` as JSON, gzip and base64; the same value gives the same letters.

    No letter of it means anything to HTML, so what a model wrote cannot end the element that holds
    it. NaN is refused.

    >>> packed([1])[:8]
    'H4sIAAAA'
    """
    encoded = gzip.compress(json_bytes(value), compresslevel=6, mtime=0)
    return base64.b64encode(encoded).decode("ascii")


def json_bytes(value: Any) -> bytes:
    r"""``value`` as JSON without spaces, in UTF-8. NaN is refused.

    >>> json_bytes(["\xe9", "\ud800"])
    b'["\xc3\xa9","\\ud800"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate can come out of a tokenizer: JSON's own escape carries it.
    return text.encode("utf-8", errors="backslashreplace")


def unpacked(letters: str) -> Any:
    """What ``packed`` was given.

    >>> unpacked(packed({"a": [1, None]}))
    {'a': [1, None]}
    """
    return json.loads(gzip.decompress(base64.b64decode(letters)))

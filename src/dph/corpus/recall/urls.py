"""URLs: the domain of a page, and patterns that a person has reviewed.

A pattern is SQL's LIKE, as in OpenCoder's Table 14: ``%`` is any run of characters, everything else
is itself (an underscore, too, which URLs are full of). It is held against the URL without its
scheme and without ``www.``, whatever the case: ``stackoverflow.com/questions%``.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def bare_url(url: str) -> str:
    """A URL without scheme, user, port and ``www.``, in lower case.

    >>> bare_url("https://www.Example.com:8080/a/B?c=1")
    'example.com/a/b?c=1'
    """
    host = domain_of(url)
    rest = _SCHEME.sub("", url).removeprefix("//")
    place = re.search(r"[/?#]", rest)
    return host + (rest[place.start() :].lower() if place else "")


def domain_of(url: str) -> str:
    """The host of a URL without ``www.``; '' where there is none.

    >>> domain_of("http://www.example.com/a"), domain_of("docs.example.com/a"), domain_of("")
    ('example.com', 'docs.example.com', '')
    """
    text = url if _SCHEME.match(url) else f"//{url.removeprefix('//')}"
    try:
        host = urlsplit(text).hostname or ""
    except ValueError:  # such as http://[
        return ""
    return host.removeprefix("www.")


def section_of(url: str) -> str:
    """The pattern of what lies under the first part of a page's path: what a person is asked about.

    >>> section_of("https://example.com/questions/1/how"), section_of("https://example.com/about")
    ('example.com/questions/%', 'example.com/about%')
    """
    host, slash, path = bare_url(url).partition("/")
    first, more, _ = re.split(r"[?#]", path, maxsplit=1)[0].partition("/")
    return f"{host}/{first}{'/' if more else ''}%" if slash else f"{host}%"


class Patterns:
    """Accepted patterns.

    >>> Patterns(["%.example.com/q/%"]).matches("https://docs.example.com/q/7")
    True
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.texts = tuple(patterns)
        """As they are written."""
        self._expression = _expression(patterns)

    def matches(self, url: str) -> bool:
        """Whether one of them matches all of the URL."""
        return self._expression is not None and bool(self._expression.fullmatch(bare_url(url)))


def _expression(patterns: Sequence[str]) -> re.Pattern[str] | None:
    alternatives = [
        ".*".join(re.escape(part) for part in re.split("%+", pattern.lower()))
        for pattern in patterns
    ]
    return re.compile("|".join(alternatives), re.DOTALL) if alternatives else None

"""A hook of MkDocs: ``llms.txt``, every page with its first sentence (https://llmstxt.org)."""

import re
from pathlib import Path
from typing import Any

_PAGES: list[Any] = []
_LEFT_OUT = re.compile(r"^(`{3,}).*?^\1|<!--.*?-->|^!\[.*?\]\(.*?\)", re.MULTILINE | re.DOTALL)


def first_sentence(markdown: str) -> str:
    r"""The first sentence of a page's first paragraph, without links and emphasis.

    >>> first_sentence("# A\n\n    code\n\nSee [this](b.md): it *works*. More.")
    'See this: it works.'
    """
    blocks = _LEFT_OUT.sub("", markdown).split("\n\n")
    text = next((b for b in blocks if re.match(r"[\w`*\"(\[]", b) and "\n|" not in b), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("*", "").replace("\n", " ")
    return re.split(r"(?<=[.?!])\s", text.strip(), maxsplit=1)[0]


def on_nav(nav: Any, **_: object) -> None:
    """Keep the pages in the order of the navigation."""
    _PAGES[:] = nav.pages


def on_post_build(config: Any) -> None:
    """Write the file next to the site's first page."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for page in _PAGES:
        sentence = first_sentence(page.markdown or "")
        lines.append(f"- [{page.title}]({page.url})" + (f": {sentence}" if sentence else ""))
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

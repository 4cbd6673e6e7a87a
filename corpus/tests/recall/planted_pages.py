"""A small web: three languages on three sites, and other pages on each of them.

Seeds are about the first language alone. The first site has pages on the first and the second
language, the second on the second and the third, the third on the third. So each round can find
what the round before could not know.
"""

import random

from dph_corpus.documents import Document

_WORDS = {
    "python": "def import lambda yield self dict tuple pandas decorator pip venv",
    "sql": "select from where join group having cursor index trigger schema view",
    "rust": "fn impl trait borrow lifetime crate cargo mut enum unwrap macro",
    "food": "onion butter oven simmer garlic flour roast pepper whisk plate soup",
    "sport": "match goal league coach season score stadium referee team cup final",
    "travel": "hotel beach flight island museum train ticket luggage harbour view tour",
}
_SHARED = tuple(
    "the a of to and in is that for with how when which one can will more some".split()  # noqa: SIM905
)
SITES = {"a.example": ("python", "sql"), "b.example": ("sql", "rust"), "c.example": ("rust",)}
CODE = ("python", "sql", "rust")


def text_about(topic, draw, length=60):
    words = _WORDS[topic].split()
    return " ".join(draw.choice(words if draw.random() < 0.5 else _SHARED) for _ in range(length))


def seeds(count=60, seed=0):
    draw = random.Random(seed)
    return [
        Document.of(text_about("python", draw), id=f"seed-{n}", path=f"{n}.txt")
        for n in range(count)
    ]


def pages(each=60, seed=1):
    """Pages, and the ids of those about code."""
    draw = random.Random(seed)
    found, relevant = [], set()
    for site, topics in SITES.items():
        for topic in topics:
            for n in range(each):
                url = f"https://www.{site}/questions/{topic}-{n}"
                found.append(_page(f"{site}/{topic}/{n}", url, topic, draw))
                relevant.add(found[-1].id)
        for topic in ("food", "sport", "travel"):
            for n in range(each):
                url = f"https://{site}/blog/{topic}/{n}"
                found.append(_page(f"{site}/{topic}/{n}", url, topic, draw))
    return found, relevant


def _page(name, url, topic, draw):
    return Document.of(text_about(topic, draw), id=name, path=name, url=url)

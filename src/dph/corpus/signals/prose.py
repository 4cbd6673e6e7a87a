"""Signals of text files: sentences, bullets, teasers, capitals, copied lines, links."""

import math
import re
from collections import Counter

_SENTENCE = re.compile("\\b[^{0}]+[{0}]*".format(".!?\u3002\uff01\uff1f\u061f"))
_SENTENCE_END = re.compile(r"[.?!\n]")
_LINK = re.compile(r"\(https?://\S+\)")
_TAG = re.compile(r"<[^>]*>")
_CLOSING = "]】)>》"
_TEASERS = (
    *("...", "…", "全文", "详情", "详细", "更多", "المزيد", "تفاصيل", "اقرأ المزيد"),
    *("もっと", "詳細", "もっと読む"),
)
_BULLETS = tuple(
    chr(code)
    for code in (
        *(0x2022, 0x2023, 0x2043, 0x204C, 0x204D, 0x2219, 0x25CB, 0x25CF, 0x25D8, 0x25D9, 0x25E6),
        *(0x25EF, 0x2611, 0x2612, 0x29BE, 0x2B1B, 0x2B1C, 0x2B1E, 0x2B1F, 0x2B24),
        *range(0x25A0, 0x25B0),
        *range(0x25C6, 0x25CB),
        *range(0x25D0, 0x25D7),
        *range(0x25E2, 0x25E6),
    )
)
_CODE_NAMES = frozenset(("readme", "notes", "todo", "description", "cmakelists"))


def count_sentences(text: str) -> int:
    """Runs without a full stop, question or exclamation mark that begin at a word."""
    return sum(1 for _ in _SENTENCE.finditer(text))


def mean_sentence_length(text: str) -> float:
    """Characters between such marks or line ends, on average."""
    pieces = len(_SENTENCE_END.findall(text)) + 1
    return (len(text) - pieces + 1) / pieces


def teaser_lines(lines: list[str]) -> int:
    """Lines that end with three dots or a few words such as "read more"."""
    return sum(line.rstrip().rstrip(_CLOSING).endswith(_TEASERS) for line in lines)


def bullet_lines(lines: list[str]) -> int:
    """Lines that begin with a bullet. A dash or a star is none."""
    return sum(line.lstrip().startswith(_BULLETS) for line in lines)


def entropy(words: list[str]) -> float:
    """Entropy of the distribution of single words, in nats."""
    total = len(words)
    return -sum(count / total * math.log(count / total) for count in Counter(words).values())


def copied_line_share(lines: list[str]) -> float | None:
    """Lines that occur twice or more, the first copy included, over those that hold anything."""
    counts = Counter(bare for line in lines if (bare := line.strip()))
    total = sum(counts.values())
    return sum(n for n in counts.values() if n > 1) / total if total else None


def copied_character_share(lines: list[str]) -> float | None:
    """The same by their characters."""
    counts = Counter(line.strip() for line in lines)
    total = sum(len(line) * n for line, n in counts.items())
    return sum(len(line) * n for line, n in counts.items() if n > 1) / total if total else None


def markup_characters(text: str) -> int:
    """Characters of links in brackets and of tags."""
    count = sum(map(len, _LINK.findall(text)))
    for line in text.split("\n"):
        # Up to the last ">" every "<" is closed, so the search is linear.
        if end := line.rfind(">") + 1:
            count += sum(map(len, _TAG.findall(line, 0, end)))
    return count


def is_named_like_code(name: str) -> bool:
    """Whether a file's name is one that belongs to code, such as a readme or requirements."""
    head = name.split(".")[0].lower()
    return "requirement" in head or head in _CODE_NAMES

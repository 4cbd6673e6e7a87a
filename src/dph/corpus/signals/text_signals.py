"""The signals of text files, in the order in which the released filter measures them."""

import math
import re
from collections import Counter
from dph.corpus.signals import shared_signals as shared
from dph.corpus.signals.code_signals import hexadecimal_characters
from dph.corpus.signals.shared_signals import Signal, share
from dph.corpus.signals.view import FileView


# Signals of text files: sentences, bullets, teasers, capitals, copied lines, links.

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


_FULL_BRACKETS = frozenset("【】")


def frac_chars_curly_bracket(view: FileView) -> float:
    """Curly brackets over all characters."""
    return share(view.characters.brackets, view.characters.total) or 0.0


def num_sentences(view: FileView) -> float:
    """Sentences."""
    return count_sentences(view.text)


def frac_words_full_bracket(view: FileView) -> float | None:
    """Words that are one full-width bracket, over raw words."""
    count = sum(word in _FULL_BRACKETS for word in view.raw_words)
    return share(count, len(view.raw_words))


def frac_lines_end_with_readmore(view: FileView) -> float | None:
    """Lines that end like a teaser."""
    return share(teaser_lines(view.lines), len(view.lines))


def frac_lines_start_with_bullet(view: FileView) -> float | None:
    """Lines that begin with a bullet."""
    return share(bullet_lines(view.lines), len(view.lines))


def entropy_unigram(view: FileView) -> float | None:
    """Entropy of the words, in nats."""
    return entropy(view.words) if view.words else None


def frac_words_all_caps(view: FileView) -> float | None:
    """Words in capitals over raw words."""
    return share(sum(map(str.isupper, view.raw_words)), len(view.raw_words))


def frac_lines_dupe_lines(view: FileView) -> float | None:
    """Lines that have a copy."""
    return copied_line_share(view.lines)


def frac_chars_dupe_lines(view: FileView) -> float | None:
    """Characters of lines that have a copy."""
    return copied_character_share(view.lines)


def cate_code_related_file_name(view: FileView) -> float:
    """1 if the file is called like one that belongs to code."""
    return float(is_named_like_code(view.name))


def num_chars_sentence_length_mean(view: FileView) -> float:
    """Characters of a sentence, on average."""
    return mean_sentence_length(view.text)


def frac_chars_hyperlink_html_tag(view: FileView) -> float | None:
    """Characters of links in brackets and of tags."""
    return share(markup_characters(view.text), len(view.text)) if view.text else None


def frac_chars_alphabet(view: FileView) -> float | None:
    """Letters over characters that are no space; for English only."""
    if view.characters.visible and view.natural_language != "en":
        return None
    return shared.frac_chars_alphabet(view)


def frac_chars_hex_words(view: FileView) -> float | None:
    """Characters of hexadecimal numbers."""
    return share(hexadecimal_characters(view.text), len(view.text))


TEXT_SIGNALS = tuple(
    Signal(f"qsc_doc_{name}", measure)
    for name, measure in (
        ("frac_chars_curly_bracket", frac_chars_curly_bracket),
        ("num_sentences", num_sentences),
        ("num_words", shared.num_words),
        ("num_chars", shared.num_chars),
        ("num_lines", shared.num_lines),
        ("mean_word_length", shared.mean_word_length),
        ("frac_words_full_bracket", frac_words_full_bracket),
        ("frac_lines_end_with_readmore", frac_lines_end_with_readmore),
        ("frac_lines_start_with_bullet", frac_lines_start_with_bullet),
        ("frac_words_unique", shared.frac_words_unique),
        ("entropy_unigram", entropy_unigram),
        ("frac_words_all_caps", frac_words_all_caps),
        ("frac_lines_dupe_lines", frac_lines_dupe_lines),
        ("frac_chars_dupe_lines", frac_chars_dupe_lines),
        *shared.NGRAMS,
        ("frac_chars_replacement_symbols", shared.frac_chars_replacement_symbols),
        ("cate_code_related_file_name", cate_code_related_file_name),
        ("num_chars_sentence_length_mean", num_chars_sentence_length_mean),
        ("frac_chars_hyperlink_html_tag", frac_chars_hyperlink_html_tag),
        ("frac_chars_alphabet", frac_chars_alphabet),
        ("frac_chars_digital", shared.frac_chars_digital),
        ("frac_chars_whitespace", shared.frac_chars_whitespace),
        ("frac_chars_hex_words", frac_chars_hex_words),
    )
)

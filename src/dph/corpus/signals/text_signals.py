"""The signals of text files, in the order in which the released filter measures them."""

from dph.corpus.signals import shared_signals as shared
from dph.corpus.signals.encoded import hexadecimal_characters
from dph.corpus.signals.prose import (
    bullet_lines,
    copied_character_share,
    copied_line_share,
    count_sentences,
    entropy,
    is_named_like_code,
    markup_characters,
    mean_sentence_length,
    teaser_lines,
)
from dph.corpus.signals.signal import Signal, share
from dph.corpus.signals.view import FileView

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

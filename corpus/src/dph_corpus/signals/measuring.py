"""All signals of a file: group by group, and a group ends with the first signal that fails."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dph_corpus.signals import shared_signals as shared
from dph_corpus.signals.c_family import (
    C_FAMILY,
    CSHARP,
    GO,
    HEADERS,
    JAVA,
    LanguagePatterns,
    accessible_share,
    count_go_no_logic,
    directive_lines,
    has_variable,
    legal_class_share,
    legal_share,
)
from dph_corpus.signals.python import PythonFacts, count_returns
from dph_corpus.signals.shared_signals import (
    CODE_SIGNALS,
    Measure,
    Signal,
    hexadecimal_characters,
    named,
    share,
)
from dph_corpus.signals.view import FileView
from dph_corpus.signals.words import SignalError

if TYPE_CHECKING:
    from dph_corpus.signals.javascript import JavaScriptFacts


# The signals of single languages, in the order of the released filter.


def _lines_holding(*words: str) -> Measure:
    def frac_lines_holding(view: FileView) -> float | None:
        """Lines of code that hold one of the words, inside others too."""
        count = sum(any(word in line for word in words) for line in view.code_lines)
        return share(count, len(view.code_lines))

    return frac_lines_holding


def _lower_lines_holding(word: str) -> Measure:
    def frac_lines_holding(view: FileView) -> float:
        """The same without regard to case; 0 where there is no code."""
        count = sum(word in line.lower() for line in view.code_lines)
        return share(count, len(view.code_lines)) or 0.0

    return frac_lines_holding


def _per_line(count: Callable[[str], int]) -> Measure:
    def frac_lines_counted(view: FileView) -> float | None:
        """Share of counted characters in the code, over its lines."""
        return share(count(view.split.code), len(view.code_lines)) if view.code_lines else None

    return frac_lines_counted


def _functions(patterns: LanguagePatterns) -> Measure:
    return _per_line(lambda code: patterns.count("functions", code))


def _python(measure: Callable[[FileView, PythonFacts], float | None]) -> Measure:
    def of_python(view: FileView) -> float | None:
        return None if view.python is None else measure(view, view.python)

    return of_python


def _python_no_logic(view: FileView, facts: PythonFacts) -> float | None:
    imports = sum("import" in line.lower() for line in view.code_lines)
    returns = count_returns(view.split.code)
    counted = facts.functions + imports + facts.classes + returns + facts.class_attributes
    return share(counted, len(view.code_lines))


def _python_per_line(count: Callable[[PythonFacts], int]) -> Measure:
    return _python(lambda view, facts: share(count(facts), len(view.code_lines)))


def _legal(kind: str, first: str) -> Measure:
    return lambda view: legal_share(kind, first, view.split.code)


def _javascript(measure: Callable[["JavaScriptFacts"], float | None]) -> Measure:
    return lambda view: None if view.javascript is None else measure(view.javascript)


def _javascript_per_line(count: Callable[["JavaScriptFacts"], int]) -> Measure:
    def frac_lines_counted(view: FileView) -> float | None:
        if not view.code_lines or view.javascript is None:
            return None
        return count(view.javascript) / len(view.code_lines)

    return frac_lines_counted


def _html_text_share(view: FileView) -> float | None:
    if not view.text or view.visible_text is None:
        return None
    return len(view.visible_text) / len(view.text)


def _directives(view: FileView) -> float | None:
    if view.extension in HEADERS:
        return None
    return share(directive_lines(view.code_lines), len(view.code_lines))


def _c_signals(prefix: str, *prints: str) -> tuple[Signal, ...]:
    directives = named(prefix, ("frac_lines_preprocessor_directives", _directives))
    others = named(
        prefix,
        ("frac_lines_func_ratio", _functions(C_FAMILY)),
        (
            "cate_bitsstdc",
            lambda view: float("bits/stdc++.h" in view.split.code.strip().lower()[:200]),
        ),
        ("nums_lines_main", lambda view: C_FAMILY.count("mains", view.split.code)),
        ("frac_lines_goto", _lines_holding("goto")),
        ("cate_var_zero", lambda view: float(not has_variable(view.split.code))),
        ("score_lines_no_logic", _per_line(C_FAMILY.no_logic)),
        ("frac_lines_print", _lines_holding(*prints)),
    )
    return (*directives, *others) if prefix == "qsc_codecpp_" else (*others, *directives)


LANGUAGE_SIGNALS: Mapping[str, tuple[Signal, ...]] = {
    "c": _c_signals("qsc_codec_", "printf"),
    "cpp": _c_signals("qsc_codecpp_", "cout", "printf"),
    "csharp": named(
        "qsc_codecsharp_",
        ("frac_lines_func_ratio", _functions(CSHARP)),
        ("cate_var_zero", lambda _view: 0.0),
        ("score_lines_no_logic", _per_line(CSHARP.no_logic)),
        ("frac_lines_print", _lines_holding("Console.WriteLine")),
    ),
    "go": named(
        "qsc_codego_",
        ("cate_testfile", lambda view: float(view.name.lower().endswith("_test.go"))),
        ("frac_lines_func_ratio", _functions(GO)),
        ("cate_var_zero", lambda _view: 0.0),
        ("score_lines_no_logic", _per_line(count_go_no_logic)),
        ("frac_lines_print", _lines_holding("fmt.Print")),
    ),
    "html": named(
        "qsc_codehtml_",
        ("cate_ast", lambda view: float(view.visible_text is not None)),
        ("frac_words_text", _html_text_share),
        ("num_chars_text", lambda v: None if v.visible_text is None else len(v.visible_text)),
    ),
    "java": named(
        "qsc_codejava_",
        ("cate_var_zero", lambda view: float(not JAVA.found("variables", view.split.code))),
        ("frac_lines_func_ratio", _functions(JAVA)),
        ("score_lines_no_logic", _per_line(JAVA.no_logic)),
        ("frac_words_no_modifier", lambda view: accessible_share(view.split.code)),
        ("frac_words_legal_var_name", _legal("variables", string.ascii_lowercase)),
        ("frac_words_legal_func_name", _legal("functions", string.ascii_letters)),
        ("frac_words_legal_class_name", lambda view: legal_class_share(view.split.code)),
        ("frac_lines_print", _lines_holding("System.out.print")),
    ),
    "javascript": named(
        "qsc_codejavascript_",
        ("cate_ast", lambda view: float(view.javascript is not None)),
        ("cate_var_zero", _javascript(lambda facts: float(facts.variables == 0))),
        ("frac_lines_func_ratio", _javascript_per_line(lambda facts: facts.functions)),
        ("num_statement_line", _javascript_per_line(lambda facts: facts.statements)),
        ("score_lines_no_logic", _javascript_per_line(lambda facts: facts.no_logic)),
        ("frac_words_legal_var_name", _javascript(lambda facts: facts.legal_variables)),
        ("frac_words_legal_func_name", _javascript(lambda facts: facts.legal_functions)),
        ("frac_words_legal_class_name", _javascript(lambda facts: facts.legal_classes)),
        ("frac_lines_print", _lines_holding("console.log")),
    ),
    "python": (
        *named(
            "qsc_codepython_",
            ("cate_ast", lambda view: float(view.tree is not None)),
            ("frac_lines_func_ratio", _python_per_line(lambda facts: facts.functions)),
            ("cate_var_zero", _python(lambda _view, facts: float(not facts.has_variable))),
            ("frac_lines_pass", _lower_lines_holding("pass")),
            ("frac_lines_import", _lower_lines_holding("import")),
        ),
        Signal(
            "qsc_codepython_frac_lines_simplefunc",
            _python_per_line(lambda facts: facts.one_line_returns),
            exact=True,
        ),
        *named(
            "qsc_codepython_",
            ("score_lines_no_logic", _python(_python_no_logic)),
            ("frac_lines_print", _lines_holding("print")),
        ),
    ),
}
"""By language."""


# The signals of text files, in the order in which the released filter measures them: sentences,
# bullets, teasers, capitals, copied lines, links.

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
_BRACKETS = ("【", "】")
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


def frac_chars_alphabet(view: FileView) -> float | None:
    """Letters over non-space characters; for English only."""
    if view.characters.visible and view.natural_language != "en":
        return None
    return shared.frac_chars_alphabet(view)


TEXT_SIGNALS = named(
    "qsc_doc_",
    (
        "frac_chars_curly_bracket",
        lambda view: share(view.characters.brackets, view.characters.total) or 0.0,
    ),
    ("num_sentences", lambda view: count_sentences(view.text)),
    *shared.SIZES[:2],
    ("num_lines", shared.num_lines),
    shared.SIZES[2],
    (
        "frac_words_full_bracket",
        lambda view: share(sum(map(_BRACKETS.count, view.raw_words)), len(view.raw_words)),
    ),
    ("frac_lines_end_with_readmore", lambda v: share(teaser_lines(v.lines), len(v.lines))),
    ("frac_lines_start_with_bullet", lambda v: share(bullet_lines(v.lines), len(v.lines))),
    shared.SIZES[3],
    ("entropy_unigram", lambda view: entropy(view.words) if view.words else None),
    (
        "frac_words_all_caps",
        lambda view: share(sum(map(str.isupper, view.raw_words)), len(view.raw_words)),
    ),
    ("frac_lines_dupe_lines", lambda view: copied_line_share(view.lines)),
    ("frac_chars_dupe_lines", lambda view: copied_character_share(view.lines)),
    *shared.NGRAMS,
    ("frac_chars_replacement_symbols", shared.frac_chars_replacement_symbols),
    ("cate_code_related_file_name", lambda view: float(is_named_like_code(view.name))),
    ("num_chars_sentence_length_mean", lambda view: mean_sentence_length(view.text)),
    (
        "frac_chars_hyperlink_html_tag",
        lambda view: share(markup_characters(view.text), len(view.text)) if view.text else None,
    ),
    ("frac_chars_alphabet", frac_chars_alphabet),
    ("frac_chars_digital", shared.frac_chars_digital),
    ("frac_chars_whitespace", shared.frac_chars_whitespace),
    ("frac_chars_hex_words", lambda v: share(hexadecimal_characters(v.text), len(v.text))),
)


@dataclass(frozen=True, slots=True)
class SignalValues:
    """The values of a file's signals, by name, and why those that are missing are.

    A signal without a value is None; those after a failure in its group are not there.
    """

    values: Mapping[str, float | None]
    failures: Mapping[str, str]


def signal_groups(doc_type: str, language: str) -> Sequence[Sequence[Signal]]:
    """The groups of signals that a kind of file gets."""
    match doc_type:
        case "text":
            return (TEXT_SIGNALS,)
        case "code" | "data":
            return (CODE_SIGNALS, LANGUAGE_SIGNALS.get(language, ()))
        case _:
            return ()


def measure(view: FileView, groups: Sequence[Sequence[Signal]]) -> SignalValues:
    """Measure every signal of ``groups``.

    A parser or lexer that gives up on the file, and a search that takes too long, end the group.
    """
    values: dict[str, float | None] = {}
    failures: dict[str, str] = {}
    for group in groups:
        for signal in group:
            try:
                values[signal.name] = signal(view)
            except SignalError as failure:
                values[signal.name], failures[signal.name] = None, str(failure)
                break
            except TimeoutError:  # of the regex module
                values[signal.name], failures[signal.name] = None, "the search took too long"
                break
    return SignalValues(values, failures)

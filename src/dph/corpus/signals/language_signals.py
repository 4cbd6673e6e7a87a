"""The signals of single languages, in the order of the released filter."""

import string
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dph.corpus.signals.c_family import (
    C_FAMILY,
    HEADERS,
    count_c_family_no_logic,
    directive_lines,
    has_variable,
)
from dph.corpus.signals.csharp import CSHARP, count_csharp_no_logic
from dph.corpus.signals.golang import GO, count_go_no_logic
from dph.corpus.signals.java import (
    JAVA,
    accessible_share,
    count_java_no_logic,
    legal_class_share,
    legal_share,
)
from dph.corpus.signals.patterns import LanguagePatterns
from dph.corpus.signals.python import PythonFacts, count_returns
from dph.corpus.signals.shared_signals import Measure, Signal, share
from dph.corpus.signals.view import FileView

if TYPE_CHECKING:
    from dph.corpus.signals.javascript import JavaScriptFacts


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
        """What is counted in the code, over its lines."""
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


def _javascript(measure: Callable[[FileView, "JavaScriptFacts"], float | None]) -> Measure:
    def of_javascript(view: FileView) -> float | None:
        return None if view.javascript is None else measure(view, view.javascript)

    return of_javascript


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


def _html_text_length(view: FileView) -> float | None:
    return None if view.visible_text is None else len(view.visible_text)


def _directives(view: FileView) -> float | None:
    if view.extension in HEADERS:
        return None
    return share(directive_lines(view.code_lines), len(view.code_lines))


def _competition_header(view: FileView) -> float:
    return float("bits/stdc++.h" in view.split.code.strip().lower()[:200])


def _c_signals(prefix: str, *prints: str) -> tuple[Signal, ...]:
    directives = Signal(f"{prefix}frac_lines_preprocessor_directives", _directives)
    others = (
        Signal(f"{prefix}frac_lines_func_ratio", _functions(C_FAMILY)),
        Signal(f"{prefix}cate_bitsstdc", _competition_header),
        Signal(
            f"{prefix}nums_lines_main",
            lambda view: C_FAMILY.count("mains", view.split.code),
        ),
        Signal(f"{prefix}frac_lines_goto", _lines_holding("goto")),
        Signal(
            f"{prefix}cate_var_zero",
            lambda view: float(not has_variable(view.split.code)),
        ),
        Signal(f"{prefix}score_lines_no_logic", _per_line(count_c_family_no_logic)),
        Signal(f"{prefix}frac_lines_print", _lines_holding(*prints)),
    )
    return (directives, *others) if prefix == "qsc_codecpp_" else (*others, directives)


_PYTHON = (
    Signal("qsc_codepython_cate_ast", lambda view: float(view.tree is not None)),
    Signal(
        "qsc_codepython_frac_lines_func_ratio",
        _python(lambda view, facts: share(facts.functions, len(view.code_lines))),
    ),
    Signal(
        "qsc_codepython_cate_var_zero",
        _python(lambda _view, facts: float(not facts.has_variable)),
    ),
    Signal("qsc_codepython_frac_lines_pass", _lower_lines_holding("pass")),
    Signal("qsc_codepython_frac_lines_import", _lower_lines_holding("import")),
    Signal(
        "qsc_codepython_frac_lines_simplefunc",
        _python(lambda view, facts: share(facts.one_line_returns, len(view.code_lines))),
        exact=True,
    ),
    Signal("qsc_codepython_score_lines_no_logic", _python(_python_no_logic)),
    Signal("qsc_codepython_frac_lines_print", _lines_holding("print")),
)
_CSHARP = (
    Signal("qsc_codecsharp_frac_lines_func_ratio", _functions(CSHARP)),
    Signal("qsc_codecsharp_cate_var_zero", lambda _view: 0.0),
    Signal("qsc_codecsharp_score_lines_no_logic", _per_line(count_csharp_no_logic)),
    Signal("qsc_codecsharp_frac_lines_print", _lines_holding("Console.WriteLine")),
)
_GO = (
    Signal("qsc_codego_cate_testfile", lambda view: float(view.name.lower().endswith("_test.go"))),
    Signal("qsc_codego_frac_lines_func_ratio", _functions(GO)),
    Signal("qsc_codego_cate_var_zero", lambda _view: 0.0),
    Signal("qsc_codego_score_lines_no_logic", _per_line(count_go_no_logic)),
    Signal("qsc_codego_frac_lines_print", _lines_holding("fmt.Print")),
)
_JAVA = (
    Signal(
        "qsc_codejava_cate_var_zero",
        lambda view: float(not JAVA.found("variables", view.split.code)),
    ),
    Signal("qsc_codejava_frac_lines_func_ratio", _functions(JAVA)),
    Signal("qsc_codejava_score_lines_no_logic", _per_line(count_java_no_logic)),
    Signal(
        "qsc_codejava_frac_words_no_modifier",
        lambda view: accessible_share(view.split.code),
    ),
    Signal(
        "qsc_codejava_frac_words_legal_var_name",
        lambda view: legal_share("variables", string.ascii_lowercase, view.split.code),
    ),
    Signal(
        "qsc_codejava_frac_words_legal_func_name",
        lambda view: legal_share("functions", string.ascii_letters, view.split.code),
    ),
    Signal(
        "qsc_codejava_frac_words_legal_class_name",
        lambda view: legal_class_share(view.split.code),
    ),
    Signal("qsc_codejava_frac_lines_print", _lines_holding("System.out.print")),
)
_JAVASCRIPT = (
    Signal("qsc_codejavascript_cate_ast", lambda view: float(view.javascript is not None)),
    Signal(
        "qsc_codejavascript_cate_var_zero",
        _javascript(lambda _view, facts: float(facts.variables == 0)),
    ),
    Signal(
        "qsc_codejavascript_frac_lines_func_ratio",
        _javascript_per_line(lambda facts: facts.functions),
    ),
    Signal(
        "qsc_codejavascript_num_statement_line",
        _javascript_per_line(lambda facts: facts.statements),
    ),
    Signal(
        "qsc_codejavascript_score_lines_no_logic",
        _javascript_per_line(lambda facts: facts.no_logic),
    ),
    Signal(
        "qsc_codejavascript_frac_words_legal_var_name",
        _javascript(lambda _view, facts: facts.legal_variables),
    ),
    Signal(
        "qsc_codejavascript_frac_words_legal_func_name",
        _javascript(lambda _view, facts: facts.legal_functions),
    ),
    Signal(
        "qsc_codejavascript_frac_words_legal_class_name",
        _javascript(lambda _view, facts: facts.legal_classes),
    ),
    Signal("qsc_codejavascript_frac_lines_print", _lines_holding("console.log")),
)
_HTML = (
    Signal("qsc_codehtml_cate_ast", lambda view: float(view.visible_text is not None)),
    Signal("qsc_codehtml_frac_words_text", _html_text_share),
    Signal("qsc_codehtml_num_chars_text", _html_text_length),
)

LANGUAGE_SIGNALS: Mapping[str, tuple[Signal, ...]] = {
    "c": _c_signals("qsc_codec_", "printf"),
    "cpp": _c_signals("qsc_codecpp_", "cout", "printf"),
    "csharp": _CSHARP,
    "go": _GO,
    "html": _HTML,
    "java": _JAVA,
    "javascript": _JAVASCRIPT,
    "python": _PYTHON,
}
"""By language."""

"""C#: what looks like a function, a variable, a return."""

from dph.corpus.signals.patterns import LanguagePatterns

_TYPES = "int|float|double|char|string|bool|byte|sbyte|short|ushort|uint|long|ulong|decimal"
CSHARP = LanguagePatterns(
    {
        "functions": r"""
            ^ [^\S\n]*+ (?: (?: public | protected | private | internal ) \s+ )?
            (?: (?: static | virtual | override | abstract | async ) \s+ )?
            (?! (?: public | private | protected | if | else ) )
            (?: <\w+> \s* )? \w+ \s+ \w+ \s* \( [^)]* \)
        """,
        "usings": r"^ [^\S\n]*+ using \s+ [a-zA-Z0-9_.]+ \s* ;",
        "classes": r"""
            \b (?: public | private | protected | internal | static | abstract | sealed )?
            \s* class \s+ \w+
        """,
        "simple_returns": r"^ [^\S\n]*+ return \b (?: \s+ [^;\n]+ )? \s* ;",
        "simple_variables": rf"\b (?: {_TYPES} ) \s+ \w+ \s* ;",
        "variables": rf"\b (?: {_TYPES} | var ) \s+ \w+",
    }
)
_CSHARP_NO_LOGIC = ("functions", "usings", "simple_variables", "simple_returns", "classes")


def count_csharp_no_logic(code: str) -> int:
    """Functions, usings, classes, all returns, and variables without a value."""
    return CSHARP.total(_CSHARP_NO_LOGIC, code)

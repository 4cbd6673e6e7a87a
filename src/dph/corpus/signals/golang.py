"""Go: what looks like a function, a variable, a return."""

import re

from dph.corpus.signals.patterns import LanguagePatterns

GO = LanguagePatterns(
    {
        "functions": r"""
            ^ func \s+ (?: \( \s* \w+ \s+ \*? \w+ \s* \) )? \s* \w+ \s* \( [^)]* \) \s*
            (?: \( [^)]+ \) | [\w\[\]]+ )? \s*
        """,
        "types": r"^ [^\S\n]*+ type \s+ \w+ \s+ (?: struct | interface ) \s* \{ [^}]* \}",
        "simple_variables": r"^ [^\S\n]*+ var \s+ \w+ \s+ \w+ \s* ;? \s* $",
        "simple_returns": r"^ [^\S\n]*+ return (?: \s+ [^;\n]+ )? \s* ;? \s* $",
        "variables": r"""
            ^ [^\S\n]*+ (?: (?: var | const ) \s+ \w+ (?: , \s* \w+ )*
                      (?: \s+ [\w\[\]*]+ | (?: \s+ [\w\[\]*]+ )? \s* = \s* [^;\n]+ )
                    | \w+ (?: \s* , \s* \w+ )* \s* := \s* [^;\n]+
                    | (?: var | const ) \s+ \( \s* (?: \w+ \s+ [\w*\[\]]+ \s* )+ \) )
        """,
    }
)
_GO_NO_LOGIC = ("functions", "simple_variables", "simple_returns", "types")
_IMPORT = re.compile(r'import\s+"[^"]+"')


def count_go_no_logic(code: str) -> int:
    """Functions, types, all returns, variables without a value, and lines that begin an import.

    Of a bracketed import only the opening line counts.
    """
    imports = sum(
        bare == "import (" or bool(_IMPORT.fullmatch(bare))
        for bare in map(str.strip, code.split("\n"))
        if bare.startswith("import")
    )
    return imports + GO.total(_GO_NO_LOGIC, code)

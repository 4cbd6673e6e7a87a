"""C and C++: what looks like a function, a main, a preprocessor line."""

import re

from dph.corpus.signals.patterns import LanguagePatterns

C_FAMILY = LanguagePatterns(
    {
        # Words that types and stars may part, and a list in brackets: definitions, prototypes,
        # but also "return f(x)" and "else if (x)".
        "functions": r"""
            \b (?: [a-zA-Z_]\w*+ (?: \s*+ \*++ \s++ | \s++ ) )++
            \*? \s* [a-zA-Z_]\w* \( [^)]* \) \s*
        """,
        "includes": r'^ [^\S\n]*+ \# \s* include \s+ ["<] [^">]+ [">]',
        "classes": r"^ [^\S\n]*+ class \s+ \w+ \s* (?: : [^{]* )? \{",
        "simple_variables": r"""
            ^ [^\S\n]*+ (?: unsigned \s+ )?
            (?: int | float | double | char | bool | std::string | auto )
            \s+ \w+ \s* ;
        """,
        "simple_returns": r"""
            ^ [^\S\n]*+ return \s*
            (?: (?: \w+ | " (?: [^"\\] | \\. )* " | ' (?: [^'\\] | \\. )* ' ) \s* )? ; \s* $
        """,
        "mains": r"\b main \s* \( [^)]* \) \s* \{",
        # The beginning of a declaration, up to its end or its first value.
        "variables": r"""
            \b \w++ \s++ \**+ \s*+ [\w\[\]]++ \s*+
            (?: , \s*+ \**+ \s*+ [\w\[\]]++ \s*+ )*+ [;=]
        """,
    }
)
_C_FAMILY_NO_LOGIC = ("functions", "includes", "simple_variables", "simple_returns", "classes")
_DIRECTIVE = re.compile(
    r"#\s*(?:include|define|if|else|elif|endif|error|pragma|warning|undef|line)|struct|using"
)
HEADERS = frozenset(("h", "hpp", "hxx", "hh", "h++"))


def count_c_family_no_logic(code: str) -> int:
    """Functions, includes, classes, and variables and returns without a calculation."""
    return C_FAMILY.total(_C_FAMILY_NO_LOGIC, code)


def directive_lines(lines: list[str]) -> int:
    """Lines of the preprocessor, and all that hold "struct" or "using"."""
    return sum(bool(_DIRECTIVE.search(line)) for line in lines)


def has_variable(code: str) -> bool:
    """Whether something looks like a declaration.

    A value may run on to any semicolon that follows it, so only what stands before the last one
    can be the beginning of a declaration.
    """
    return C_FAMILY.found("variables", code[: code.rfind(";") + 1])

"""C and C++: what looks like a function, a main, a preprocessor line."""

import re
from collections.abc import Mapping

import regex

# Counting what looks like a function, a variable or a return in languages that are not parsed.
#
# The expressions are those of the released filter in what they match; calls and control flow can
# look like functions. They are written so that they cannot backtrack without end where that
# changes no match, and none may search for longer than ten seconds.

_SECONDS = 10.0


class LanguagePatterns:
    """Expressions by name, for one language.

    Args:
        expressions: each in verbose form; ``^`` and ``$`` hold at every line.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._compiled = {
            name: regex.compile(text, regex.MULTILINE | regex.VERBOSE)
            for name, text in expressions.items()
        }

    def count(self, name: str, code: str) -> int:
        """Number of matches of the expression."""
        return sum(1 for _ in self._compiled[name].finditer(code, timeout=_SECONDS))

    def matches(self, name: str, code: str) -> list[str]:
        """The first group of each match, or the match where there is none."""
        pattern = self._compiled[name]
        group = min(1, pattern.groups)
        return [match[group] for match in pattern.finditer(code, timeout=_SECONDS)]

    def found(self, name: str, code: str) -> bool:
        """Whether the expression matches anywhere."""
        return self._compiled[name].search(code, timeout=_SECONDS) is not None

    def total(self, names: tuple[str, ...], code: str) -> int:
        """Matches of several expressions together."""
        return sum(self.count(name, code) for name in names)


# Java: what looks like a function, a variable, a class, a return.

_TYPE = r"(?: int | float | boolean | char | double | String | [A-Z][\w<>]* )"
_MODIFIERS = r"(?: (?: public | protected | private | final | static ) \s+ )*"
JAVA = LanguagePatterns(
    {
        "functions": r"""
            ^ [^\S\n]*+ (
                (?: (?: public | protected | private | static ) \s+ )*
                (?! (?: public | private | protected | else | if ) )
                (?: <\w+> \s* )? \w+ \s+ \w+ \s* \( [^)]* \)
                (?: \s* throws \s+ [\w,\ ]+ )?
            )
        """,
        "imports": r"^ [^\S\n]*+ import \s+ [\w.*]+ \s* ; \s* $",
        "simple_variables": rf"^ [^\S\n]*+ {_MODIFIERS} {_TYPE} \s+ \w+ \s* ;",
        "variables": rf"^ [^\S\n]*+ ( {_MODIFIERS} {_TYPE} \s+ \w+ \s*+ (?: = [^;]+ )? ; )",
        "simple_returns": r"""
            ^ [^\S\n]*+ return
            (?: ; | \s+ (?: \w* | " [^"\\]* (?: \\. [^"\\]* )* " ) \s* ; \s* ) $
        """,
        "classes": r"""
            ^ [^\S\n]*+ (?: (?: public | protected | private ) \s+ )?
            (?: (?: final | abstract ) \s+ )?
            class \s+ ( [\w<>]+ )
        """,
    }
)
_JAVA_NO_LOGIC = ("functions", "imports", "simple_variables", "simple_returns", "classes")
_ACCESS = ("public", "protected", "private")
_CLASS_NAME = re.compile(r"[A-Z][a-zA-Z0-9]*")


def count_java_no_logic(code: str) -> int:
    """Functions, imports, classes, and variables and returns without a calculation."""
    return JAVA.total(_JAVA_NO_LOGIC, code)


def accessible_share(code: str) -> float | None:
    """Functions with an access modifier over functions and classes.

    A class counts only if it is called like a modifier: the released filter looks at its name.
    """
    functions, classes = JAVA.matches("functions", code), JAVA.matches("classes", code)
    if not functions and not classes:
        return None
    count = sum(any(word in text for word in _ACCESS) for text in functions)
    count += sum(name in _ACCESS for name in classes)
    return count / (len(functions) + len(classes))


def legal_share(kind: str, first: str, code: str) -> float | None:
    """Share of ``kind`` whose second character is one of ``first``.

    That is where the released filter looks for a name.
    """
    found = JAVA.matches(kind, code)
    return sum(text[1] in first for text in found) / len(found) if found else None


def legal_class_share(code: str) -> float | None:
    """Share of classes that are called by a capital and letters or digits."""
    names = JAVA.matches("classes", code)
    return sum(bool(_CLASS_NAME.fullmatch(name)) for name in names) / len(names) if names else None


# Go: what looks like a function, a variable, a return.

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


# C#: what looks like a function, a variable, a return.

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

"""Java: what looks like a function, a variable, a class, a return."""

import re

from dph.corpus.signals.patterns import LanguagePatterns

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

"""C and C++: what looks like a function, a main, a preprocessor line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import regex

from dph_corpus.packaged import packaged

# Counting what looks like a function, a variable or a return in languages that are not parsed, by
# the expressions of ``patterns.toml``. None may search for longer than ten seconds.

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LanguageTable:
    """Expressions by name, and those of them that stand for code without a calculation."""

    no_logic: Sequence[str]
    expressions: Mapping[str, str]


class LanguagePatterns:
    """The expressions of one language."""

    def __init__(self, table: LanguageTable) -> None:
        self._no_logic = table.no_logic
        self._compiled = {
            name: regex.compile(text, regex.MULTILINE | regex.VERBOSE)
            for name, text in table.expressions.items()
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

    def no_logic(self, code: str) -> int:
        """Functions, imports, classes, and variables and returns without a calculation."""
        return sum(self.count(name, code) for name in self._no_logic)


_TABLES = packaged("signals/patterns.toml", dict[str, LanguageTable])
C_FAMILY, CSHARP, GO, JAVA = (LanguagePatterns(_TABLES[n]) for n in ("c", "csharp", "go", "java"))


_ACCESS = ("public", "protected", "private")
_CLASS_NAME = re.compile(r"[A-Z][a-zA-Z0-9]*")


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
    return imports + GO.no_logic(code)


_DIRECTIVE = re.compile(
    r"#\s*(?:include|define|if|else|elif|endif|error|pragma|warning|undef|line)|struct|using"
)
HEADERS = frozenset(("h", "hpp", "hxx", "hh", "h++"))


def directive_lines(lines: list[str]) -> int:
    """Lines of the preprocessor, and all that hold "struct" or "using"."""
    return sum(bool(_DIRECTIVE.search(line)) for line in lines)


def has_variable(code: str) -> bool:
    """Whether something looks like a declaration.

    A value may run on to any semicolon that follows it, so only what stands before the last one
    can be the beginning of a declaration.
    """
    return C_FAMILY.found("variables", code[: code.rfind(";") + 1])

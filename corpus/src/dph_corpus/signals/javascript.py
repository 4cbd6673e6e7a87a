"""JavaScript, read by esprima: ECMAScript 2017. What is newer does not parse."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import esprima
from bs4 import BeautifulSoup

from dph_corpus.signals.python import deep_recursion
from dph_corpus.signals.words import SignalError

# Visible text of HTML.


def visible_text(text: str) -> str | None:
    """Text nodes outside scripts, styles, templates and comments, or None if it cannot be parsed.

    Nearly everything parses: only markup that ``html.parser`` rejects does not.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # XML, names of files: data all the same
            visible: str = BeautifulSoup(text, features="html.parser").get_text()
            return visible
    except Exception:  # noqa: BLE001 - the parser's own errors have no common class
        return None


_SIMPLE = frozenset(("Literal", "Identifier", "UnaryExpression"))
_FUNCTIONS = frozenset(("FunctionExpression", "ArrowFunctionExpression"))
_VARIABLE_NAME = re.compile(r"[a-z$][a-zA-Z0-9]*")
_FUNCTION_NAME = re.compile(r"[a-zA-Z$][a-zA-Z0-9]*")
_CLASS_NAME = re.compile(r"[A-Z][a-zA-Z0-9]*")
_LONGEST = 3_000_000
"""Characters. Beyond them the parser takes minutes."""


@dataclass(frozen=True, slots=True)
class JavaScriptFacts:
    """Declarations of a script or module, and the style of its names."""

    statements: int
    """At the top level."""
    functions: int
    variables: int
    no_logic: int
    """Functions, imports, classes, simple returns and variables with simple values."""
    legal_variables: float | None
    legal_functions: float | None
    legal_classes: float | None


def javascript_facts(text: str) -> JavaScriptFacts | None:
    """Declarations of ``text``, or None if it does not parse.

    It is read as a module if it holds "import" or "export", and as a script if it does not or if
    that fails.
    """
    if len(text) > _LONGEST:
        raise SignalError(f"JavaScript of {len(text)} characters; parsed up to {_LONGEST}")
    try:
        with deep_recursion():
            tree = _parsed(text)
    except Exception as error:
        raise SignalError(f"JavaScript parser: {type(error).__name__}") from error
    return None if tree is None else _facts(tree)


def _parsed(text: str) -> Any:
    try:
        if "import" in text or "export" in text:
            try:
                return esprima.parseModule(text)
            except esprima.Error:
                return esprima.parseScript(text)
        return esprima.parseScript(text)
    except esprima.Error:
        return None


def _facts(tree: Any) -> JavaScriptFacts:
    functions: list[str] = []
    variables: list[str] = []
    classes: list[str] = []
    simple = 0
    for node in _nodes(tree):
        match node.type:
            case "VariableDeclaration":
                simple += _declared(node, functions, variables)
            case "AssignmentExpression":
                simple += _exported(node, functions, variables)
            case "FunctionDeclaration":
                functions += [node.id.name] if node.id and node.id.name else []
            case "ClassDeclaration":
                classes += [node.id.name] if node.id and node.id.name else []
            case "ReturnStatement":
                simple += node.argument is None or node.argument.type in _SIMPLE
            case "ImportDeclaration":
                simple += 1
    return JavaScriptFacts(
        statements=len(tree.body),
        functions=len(functions),
        variables=len(variables),
        no_logic=len(functions) + len(classes) + simple,
        legal_variables=_share(_VARIABLE_NAME, variables),
        legal_functions=_share(_FUNCTION_NAME, functions),
        legal_classes=_share(_CLASS_NAME, classes),
    )


def _declared(node: Any, functions: list[str], variables: list[str]) -> int:
    """Note what a declaration names; returns how many of its values are simple or missing."""
    simple = 0
    for declarator in node.declarations:
        name, value = declarator.id.name, declarator.init
        if isinstance(value, esprima.nodes.FunctionExpression):  # an async one is not
            functions += [name] if name else []
            continue
        variables += [name] if name else []
        simple += value is None or value.type in _SIMPLE
    return simple


def _exported(node: Any, functions: list[str], variables: list[str]) -> int:
    """Note what ``module.exports`` gets under a name; returns whether its value is simple."""
    left = node.left
    if left.type != "MemberExpression" or left.object.type != "MemberExpression":
        return 0
    if left.object.object.name != "module" or left.object.property.name != "exports":
        return 0
    name = left.property.name
    if not name:
        return 0
    (functions if node.right.type in _FUNCTIONS else variables).append(name)
    return int(node.right.type in _SIMPLE)


def _nodes(tree: Any) -> Iterator[Any]:
    """Every node, a parent before its children."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        for value in reversed(vars(node).values()):
            if isinstance(value, esprima.nodes.Node):
                stack.append(value)
            elif isinstance(value, list):
                stack += [item for item in reversed(value) if isinstance(item, esprima.nodes.Node)]


def _share(pattern: re.Pattern[str], names: list[str]) -> float | None:
    return sum(bool(pattern.fullmatch(name)) for name in names) / len(names) if names else None

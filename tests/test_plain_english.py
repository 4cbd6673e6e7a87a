"""Messages in plain English: none has a phrase of the list in CONTRIBUTING.md."""

import ast
import re
from pathlib import Path

import pytest

import dph

PACKAGES = [Path(dph.__file__).parent, Path(__file__).parents[1] / "corpus/src/dph_corpus"]
TEXTS = (".html", ".js", ".toml", ".yaml")

PHRASES = {
    "is not a": r"(?<!\bthere )\b(?:is|are|was|were) no\b(?! longer)",
    "next to, in addition to": r"\bbeside\b",
    "a noun phrase or an imperative first": (
        r"\A(?:what|who|whose|where|how|when|whether|which)\b(?!.*\?)"
    ),
    "your, user-defined": r"\bof (?:one's|your|its|their) own\b|\bof yours\b",
    "unchanged": r"\bas (?:it|they) (?:was|were)\b",
    "must": r"\b(?:has|have|had) to\b",
    "this many, at most N": r"\bso many\b",
    "continue": r"\b(?:go|goes|going|went) on\b",
    "does not exist, exists already, twice": (
        r"(?<!what )\b(?:is|are|was|were) (?:not )?there\b(?! (?:a|an|any|no)\b)"
    ),
    "end": r"\bto (?:an|no) end\b",
    "fix": r"\bmend(?:ed|s)?\b",
    "expected": r"\bwanted\b",
    "is not possible": r"\bcannot be had\b",
}
FOUND = {better: re.compile(phrase, re.I | re.S) for better, phrase in PHRASES.items()}
HEADLESS = re.compile(r"\A(?:what|who|whose|where|how|when|which)\b(?!.*\?)", re.I | re.S)

DATA = (
    "It has to pass these tests:",
    "Let it give you an idea",
    "left as it was",
    "how many {} {}",
    "whose {} has",
    "how many are there of",
)
"""Prompts of models, questions of worlds and a key of a file: data, which stays."""


def phrases_of(text):
    """The replacements of the list that a text asks for."""
    return [better for better, phrase in FOUND.items() if phrase.search(text)]


def docstrings(tree):
    """The texts that stand as statements: docstrings, and those below an attribute."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                yield one.value


def written(joined):
    """An f-string's text, with ``{}`` for values."""
    return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in joined.values)


def messages(tree):
    """Line and text of every string of three words or more that is not a docstring."""
    left_out = {id(text) for text in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.JoinedStr):
            text = written(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value if id(node) not in left_out else None
        if text and text.count(" ") >= 2 and not any(data in text for data in DATA):
            yield node.lineno, text


def help_texts(tree):
    """The docstrings of functions at the top of a file: of the command line, what --help shows."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.lineno, (ast.get_docstring(node) or "").partition("Raises:")[0]


def faults(path):
    if path.suffix == ".py":
        tree = ast.parse(path.read_text())
        found = [*messages(tree), *(help_texts(tree) if "cli" in path.parts[-3:-1] else ())]
    else:
        lines = enumerate(path.read_text().splitlines(), start=1)
        found = [one for one in lines if not any(data in one[1] for data in DATA)]
    for line, text in found:
        yield from (f"{path.name}:{line}: {better}: {text[:90]!r}" for better in phrases_of(text))


def test_a_phrase_is_found_and_its_replacement_named():
    for text, better in {
        "runs is no directory": "is not a",
        "there is no directory runs": None,
        "it is shown beside the first": "next to, in addition to",
        "What a run needs": "a noun phrase or an imperative first",
        "What is the answer?": None,
        "name a function of your own": "your, user-defined",
        "the reward has to be a number": "must",
        "the reward must be a number": None,
        "data.train is not there: problems.jsonl": "does not exist, exists already, twice",
        "what is there to compare?": None,
    }.items():
        assert phrases_of(text) == ([better] if better else [])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_message_has_a_phrase_that_reads_as_translated(package):
    files = [p for p in sorted(package.rglob("*")) if p.suffix in (".py", *TEXTS)]
    assert [fault for path in files for fault in faults(path)] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_docstring_begins_with_a_headless_clause(package):
    found = []
    for path in sorted(package.rglob("*.py")):
        for text in docstrings(ast.parse(path.read_text())):
            first = text.value.strip().partition("\n")[0] if isinstance(text.value, str) else ""
            if HEADLESS.search(first):
                found.append(f"{path.name}: {first}")
    assert found == []

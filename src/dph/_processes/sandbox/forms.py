"""Forms of tests that are refused by name: the program is in another process.

There a patch of the tests changes nothing, a class of theirs has no base, and a value is a copy, so
that a right program would fail. The tests' text decides, before any program runs. Forms of which it
says too little are refused when they are met (``RemoteProgram.refused``).
"""

import ast
import builtins
import re
from collections.abc import Iterable, Sequence

from dph._processes.sandbox.checks import SOLUTION_MODULES
from dph._processes.sandbox.names import TaskError, prefix_alone, usual
from dph._processes.sandbox.pytest_stand_in import stand_in
from dph._processes.sandbox.values import TYPES

NOT_SUPPORTED = "tests of this form are not supported"
_SUSPECTS = re.compile(
    r"\bclass\b|patch|Mock|\bis\b|assert(?:Is|Logs|NoLogs|Warns)|\bid\(|attr\(|environ|__class__"
    r"|\btype\(|pytest\.|\binspect\b|mocker|caplog|recwarn|\btmp|\w\.\w+ *=[^=]"
)
_OF_MOCKS = r"(?:assert_\w+|call\w*|\w+_calls|return_value|side_effect|reset_mock|name|spec\w*)\b"
_ELEMENT = r"(?:VALUE\[.*?\]|\bPART\b(?:\[.*?\])?)"
# Names in capitals stand for those of a task's tests: the program's, its functions, modules that
# are imported, mocks, what functions of the program return, and elements of that. SHARED are names
# that the program takes from the process of the tests.
_FORMS = {
    "a class below one of the program": (
        r"^ *class \w+\((?:.*, )?(?!\w*(?:Error|Exception|Warning)\b)PROGRAM\b"
    ),
    "a patch": r"(?<![\w.])(?:(?:unittest\.)?mock\.)?patch(?:\.\w+)?\((?!'?SHARED'?[,)]).*?[,)]",
    "a fixture": (
        r"^ *(?:async )?def \w+\(.*\b"
        r"(?:monkeypatch|mocker|caplog|recwarn|tmp_path|tmpdir|tmp_path_factory)\b"
    ),
    "a change of a module": (
        r"^ *(?!SHARED )MODULE(?:\.\w+)+ \S?= |\b(?:set|del)attr\((?!SHARED[,)])MODULE,.*?[,)]"
        r"|\benviron(?:\[.*\] = |\.(?:update|setdefault|pop)\()"
    ),
    "a function of a framework": (
        r"\bpytest\.(?!PYTEST\b)\w+|\bassert(?:No)?Logs\b|\bassertWarns\w*|\binspect\.\w+\(PROGRAM\b"
    ),
    "the type of an object": (
        r"(?:\btype\(.+\)|\.__class__)"
        r"(?: (?:is|is not|==|!=|in) .*\bPROGRAM\b|\.__name__ (?:==|!=|in) .?'(?!PLAIN')\w+)"
    ),
    "a mock with attributes": rf"\bMOCK\.(?!{_OF_MOCKS})\w+|Mock\((?:.*, )?(?!{_OF_MOCKS})\w+=",
    "the identity of elements": (
        rf"{_ELEMENT} is (?:not )?(?:VALUE|PART\b)|VALUE is (?:not )?{_ELEMENT}|\bid\({_ELEMENT}"
        rf"|assertIs(?:Not)?\((?:{_ELEMENT}, (?:VALUE|PART\b)|VALUE, {_ELEMENT})"
    ),
}


def refuse_forms(texts: Sequence[str], prefix: str, entry_point: str) -> None:
    """Refuse a form in a task's texts that cannot be run as one process would.

    Raises:
        TaskError: names it.
    """
    if not any(map(_SUSPECTS.search, texts)):
        return
    tree = ast.parse("\n".join(texts))
    try:
        source = ast.unparse(tree)
    except RecursionError:  # data, above all
        return
    program, modules = _names(tree, ast.parse(prefix_alone(prefix, entry_point)), entry_point)
    function = _any(name for name in program if not name[:1].isupper())
    returned = re.findall(rf"^ *(\w+) = {function}\(", source, re.M)
    value = rf"\b(?:{_any(returned)}\b|{function}\([^()]*\))"
    parts = re.findall(rf"^ *\(?(\w+(?:, \w+)+)\)? = {value}$|\bfor (\w+) in {value}", source, re.M)
    words = {
        "PROGRAM": _any(program),
        "MODULE": _any(modules - {"unittest", "pytest"}),
        "MOCK": _any(re.findall(r"(\w+) = (?:\w+\.)*(?:Magic|Async)?Mock\(", source)),
        "VALUE": value,
        "PART": _any(name for found in parts for name in ", ".join(found).split(", ") if name),
        "PYTEST": _any(vars(stand_in())),
        "PLAIN": _any(TYPES),
        "SHARED": r"(?:builtins(?:\.|, ')input|sys(?:\.|, ')std(?:in|out|err))'?",
    }
    for form, pattern in _FORMS.items():
        pattern = re.sub("|".join(words), lambda word: words[word[0]], pattern)
        if found := re.search(pattern, source, re.MULTILINE):
            raise TaskError(f"{NOT_SUPPORTED}: {form}: {found[0].strip()[:80]}")


def _names(tree: ast.Module, prefix: ast.Module, entry_point: str) -> tuple[set[str], set[str]]:
    """Patterns of the program's names in a task's texts, and of modules that these import."""
    program = {entry_point.partition(".")[0] or "candidate"}
    bound, used, modules = set[str](), set[str](), set[str]()
    for node in [*ast.walk(prefix), *ast.walk(tree)]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {each.asname or each.name for each in node.names}
            from_program = getattr(node, "module", node.names[0].name) in SOLUTION_MODULES
            if isinstance(node, ast.Import):
                modules |= names
                names = {rf"{each}\.\w+" for each in names} if from_program else names
            (program if from_program else bound).update(names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
    free = {each for each in used - bound if not hasattr(builtins, each) and usual(each) is None}
    return (program - {"*"}) | (set() if "*" in bound else free), modules


def _any(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(names)) or '(?!)'})"

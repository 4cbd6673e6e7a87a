"""The verifiers that can be named in a recipe: one row for each.

A row says where the class is, which settings it has, with their types, ranges and meanings (their
defaults are those of the class's own signature, which a test compares), and how it compares two
answers. Nothing is imported here: recipes and the command line read the rows, and a verifier is
loaded when it is made.

To add a verifier: a folder with the class, and a row here. Its settings are then keys of a recipe's
``[data]``, arguments of ``make_verifier`` and options of ``dph grade``; other engines and resumed
runs know them too. A function of one's own needs no row: it is named by its import path.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Literal

from dph._base.import_path import is_import_path
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.function import FunctionVerifier

TEXTS = tuple[str, ...] | None
"""The type of a setting that is a list of texts, none of them blank, or the verifier's own list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierSetting:
    """A setting: the argument of the class that it is, and the values that it may have.

    Attributes:
        argument: its name in the signature of the class.
        kind: ``bool``, ``int``, ``float``, a ``Literal`` of texts, or ``TEXTS``.
        default: the value where none is given.
        meaning: one line for people.
        bounds: of a number, as pydantic names them: ``gt``, ``ge``, ``lt``, ``le``.
        always_counts: training depends on it by its value even where that is the default. Runs from
            before a setting existed continue, so a new one leaves this out.
    """

    argument: str
    kind: Any
    default: Any
    meaning: str
    bounds: Mapping[str, float] = field(default_factory=dict)
    always_counts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierRow:
    """A row: where a verifier is, and what can be set of it.

    Attributes:
        path: import path of the class.
        summary: its line in docs/guides/grading.md.
        settings: by their keys in a recipe's ``[data]``.
        takes: the arguments that it shares with others: ``workers``, ``timeout``, ``databases``.
        compares: it has ``gold_of``, by which answers are compared with each other.
        column: the column of a row that every row has to have; None if there is none.
        elsewhere: why ``dph grade --verifier`` does not take it, and which verb does.
    """

    path: str
    summary: str
    settings: Mapping[str, VerifierSetting] = field(default_factory=dict)
    takes: tuple[str, ...] = ("workers", "timeout")
    compares: bool = True
    column: str | None = "answer"
    elsewhere: str = ""


VERIFIERS: Mapping[str, VerifierRow] = MappingProxyType(
    {
        "sql": VerifierRow(
            path="dph.tasks.verifiers.sql.verifier:SQLVerifier",
            summary="runs the statement and the gold on a read-only database",
            settings={
                "sql_rule": VerifierSetting(
                    argument="rule",
                    kind=Literal["spider", "bird", "bird_soft_f1", "strict", "cartesian"],
                    default="bird",
                    meaning="rule for equal results (sql)",
                    always_counts=True,
                )
            },
            takes=("databases", "workers", "timeout"),
            elsewhere="answers in SQL need databases: grade them with `dph grade sql`",
        ),
        "math": VerifierRow(
            path="dph.tasks.verifiers.math.verifier:MathVerifier",
            summary="mathematical answers, strict enough to train with",
            settings={
                "math_phrases": VerifierSetting(
                    argument="phrases",
                    kind=TEXTS,
                    default=None,
                    meaning="phrases that announce an answer without a box (math); "
                    "default: a built-in list",
                    always_counts=True,
                ),
                "math_any_expression": VerifierSetting(
                    argument="any_expression",
                    kind=bool,
                    default=True,
                    meaning="use the last expression if there is no box or phrase (math)",
                    always_counts=True,
                ),
            },
        ),
        "math_qwen": VerifierRow(
            path="dph.tasks.verifiers.qwen.verifier:MathQwenVerifier",
            summary="the verdict of Qwen2.5-Math's tool; to compare scores, not to train with",
        ),
        "code": VerifierRow(
            path="dph.tasks.verifiers.code.verifier:CodeVerifier",
            summary="programs in Python, by unit tests or by what they print",
            settings={
                "code_memory_mb": VerifierSetting(
                    argument="memory_mb",
                    kind=int,
                    default=1000,
                    meaning="address space limit of a program, in units of 10^6 bytes (code)",
                    bounds={"ge": 64},
                )
            },
            elsewhere="programs need tests: grade them with `dph grade code`",
        ),
        "reasoning_gym": VerifierRow(
            path="dph.tasks.verifiers.gym.verifier:GymVerifier",
            summary="the scorers of reasoning-gym",
            compares=False,
            column=None,
            settings={
                "gym_threshold": VerifierSetting(
                    argument="threshold",
                    kind=float,
                    default=1.0,
                    meaning="lowest score of a right answer (reasoning_gym)",
                    bounds={"gt": 0, "le": 1},
                )
            },
        ),
        "number": VerifierRow(
            path="dph.tasks.verifiers.exact:NumberVerifier",
            summary="the last number of the response, exactly",
            takes=(),
        ),
        "exact": VerifierRow(
            path="dph.tasks.verifiers.exact:ExactVerifier",
            summary="the whole response, apart from blanks around it",
            takes=(),
        ),
    }
)
"""Every verifier by its name."""


def verifier_settings() -> dict[str, VerifierSetting]:
    """The settings of all verifiers, by key."""
    return {key: setting for row in VERIFIERS.values() for key, setting in row.settings.items()}


def require_own_settings(verifier: str, settings: Iterable[str]) -> None:
    """Refuse settings that are not this verifier's, which ``make_verifier`` would ignore."""
    known = VERIFIERS[verifier].settings if verifier in VERIFIERS else {}
    if others := [key for key in settings if key not in known]:
        raise SettingsError(f"{others[0]} is not a setting of the verifier {verifier!r}")


def unknown_verifier(name: object) -> str:
    """Message about a verifier's name; '' for a known one, an import path and a function.

    >>> unknown_verifier("sqll")[:54]
    "there is no verifier 'sqll'; did you mean 'sql'? It is"
    """
    known = ", ".join(VERIFIERS)
    if callable(name):
        return ""
    if not isinstance(name, str):
        return (
            f"a verifier is one of {known}, or your own function, got {name!r:.80} "
            f"({type(name).__name__})"
        )
    if name in VERIFIERS or is_import_path(name):
        return ""
    near = difflib.get_close_matches(name, VERIFIERS, n=1)
    hint = f"did you mean {near[0]!r}? It" if near else "it"
    return (
        f"there is no verifier {name!r}; {hint} is one of {known}, or your own as 'module:function'"
    )


def make_verifier(
    name: str | Callable[[str, Problem], Any],
    *,
    databases: str | Path | None = None,
    workers: int = 1,
    timeout: float = 5.0,
    modules: Sequence[str | Path] = (),
    **settings: Any,
) -> Verifier:
    """The verifier ``name``, or the function that an import path ``module:function`` names.

    Args:
        name: a key of VERIFIERS, an import path, or the function itself (of a module: worker
            processes import it).
        databases: where the relative paths of databases start (only ``sql``).
        workers: number of worker processes (not of ``number`` and ``exact``, which have none).
        timeout: seconds for one answer, in ``sql`` for one statement, in ``code`` for one test.
        modules: directories in which a function's module is looked for first.
        settings: those of the rows of VERIFIERS, by their keys in a recipe's ``[data]``:
            ``sql_rule``, ``math_phrases``, ``code_memory_mb`` ... Each verifier takes its own and
            ignores those of others.

    Raises:
        SettingsError: no verifier has that name, the function cannot be imported by another
            process, no verifier has a setting of that name, or one is out of range.
    """
    known = verifier_settings()
    if wrong := [key for key in settings if key not in known]:
        raise SettingsError(f"no verifier has a setting {wrong[0]!r}; there are {', '.join(known)}")
    if isinstance(name, str) and name in VERIFIERS:
        row = VERIFIERS[name]
        shared = {
            "databases": None if databases is None else Path(databases),
            "workers": workers,
            "timeout": timeout,
        }
        own = {row.settings[key].argument: settings[key] for key in row.settings if key in settings}
        made: Verifier = resolve_name(row.path)(**{key: shared[key] for key in row.takes}, **own)
        return made
    if unknown := unknown_verifier(name):
        raise SettingsError(unknown)
    directories = [Path(each) for each in modules]
    return FunctionVerifier(name, directories=directories, workers=workers, timeout=timeout)

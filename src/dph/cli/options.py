"""A command line: its exit codes, the options that several verbs share, and groups of verbs."""

import errno
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from dph import __version__
from dph.errors import DphError, is_bad_input
from dph.results.charts.text_table import visible

# From an error to one line on stderr and an exit code.

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

_OUTSIDE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
}
"""Refusals of the system through no fault of ours: a full disk, a directory without rights, a file
where a directory should be."""

_USAGE_ERROR = typer.BadParameter.__mro__[1]
"""click's UsageError, wherever this version of typer keeps it."""


def run_app(app: typer.Typer, name: str, words: list[str]) -> int:
    try:
        code = get_command(app).main(words, prog_name=name, standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every error becomes an exit code
        return exit_code(error, name)
    if code == INTERRUPTED:  # by Ctrl-C, or stopped by a verb at a checkpoint
        return say_interrupted(name)
    return code if isinstance(code, int) else 0


def exit_code(error: BaseException, name: str = "dph") -> int:
    """Say what went wrong and return the exit code: 2 bad input, 1 failed, 130 interrupted.

    Only an error that nobody foresaw is shown with its traceback.
    """
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return say_interrupted(name)
    if isinstance(error, _USAGE_ERROR):
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":  # `dph` alone: its message is the help
            print(context.get_help() if context else error, file=sys.stderr)  # noqa: T201
            return BAD_INPUT
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        say_error(f"{message}{hint}", name)
        return BAD_INPUT
    if isinstance(error, DphError):
        say_error(str(error), name)
        return BAD_INPUT if is_bad_input(error) else FAILED
    if isinstance(error, OSError) and error.errno in _OUTSIDE:
        place = f": {error.filename}" if error.filename else ""
        say_error(f"{os.strerror(error.errno)}{place}; finished work is kept", name)
        return FAILED
    traceback.print_exception(error, file=sys.stderr)
    say_error(f"unexpected {type(error).__name__}: {error}; the traceback is above", name)
    return FAILED


def say_interrupted(name: str = "dph") -> int:
    where = "the same command continues where it stopped (grade: with --resume)"
    print(f"{name}: interrupted; {where}", file=sys.stderr)  # noqa: T201
    return INTERRUPTED


def say_error(message: str, name: str) -> None:
    print(f"{name}: error:", visible(" ".join(message.split())), file=sys.stderr)  # noqa: T201


ROW_FILES = ".parquet, .jsonl or .csv, the last two also as .gz"
"""Kinds of files of rows, for people; dph._base.files.rows has the names."""


def option(usage: str, meaning: str, *default: Any, **how: Any) -> Any:
    """An option, from its flags and the placeholder of its value, such as ``-k --top K``.

    It stands in ``Annotated``, or with its default as the default of a parameter.
    """
    *flags, last = usage.split(" ")
    if last.startswith("-"):
        flags.append(last)
    else:
        how["metavar"] = last
    return typer.Option(*default, *flags, help=meaning, **how)


def argument(name: str | None, meaning: str, *default: Any, **how: Any) -> Any:
    """An argument by its name in the usage of the verb; None: its choices."""
    return typer.Argument(*default, metavar=name, help=meaning, **how)


RecipeArgument = Annotated[Path, argument("RECIPE", "Recipe, a TOML file.")]
TrainedRunArgument = Annotated[Path, argument("RUN", "Directory of a trained run.")]
SetOption = Annotated[
    list[str] | None, option("--set KEY=VALUE", "Override a setting; may be repeated.")
]
SetNamesOption = Annotated[
    list[str] | None, option("--set-name NAME", "Use only this set; may be repeated.")
]
SeedOption = Annotated[int | None, option("--seed N", "Override the recipe's seed.", min=0)]
BootstrapSeed = Annotated[int, option("--seed N", "Seed of the bootstrap.", min=0)]
IntervalsSeed = Annotated[int, option("--seed N", "Seed of the intervals.", min=0)]
OutOption = Annotated[Path | None, option("--out DIR", "Run directory [default: runs/<name>].")]
JsonOption = Annotated[bool, option("--json", "Print one JSON document; progress goes to stderr.")]
AcceptVerifierOption = Annotated[
    bool,
    option(
        "--accept-verifier", "Continue even if the verifier's file has changed since the run began."
    ),
]
WorkersOption = Annotated[
    int | None, option("--workers N", "Worker processes [default: one per core].", min=1)
]


@contextmanager
def _said_on_stderr(*, at_once: bool) -> Iterator[None]:
    """Write what is said of answers that are read (``dph.runs.evaluate``) to stderr.

    At once, or when the verb ends: one that fails says why it failed and nothing else.
    """
    kept: list[logging.LogRecord] = []
    handler = logging.StreamHandler(sys.stderr)
    handler.format = lambda record: visible(record.getMessage())  # type: ignore[method-assign]
    write = handler.emit
    if not at_once:
        handler.emit = kept.append  # type: ignore[method-assign,assignment]
    logger = logging.getLogger("dph.runs.evaluate")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        for record in kept if sys.exc_info()[0] is None else ():
            write(record)


def _name_columns(context: typer.Context, given: list[str] | None) -> None:
    """Read files of answers with these columns until the verb ends, and say what was found."""
    pairs = column_pairs(given)
    enter: Callable[..., object] = cast("Any", context).with_resource
    enter(_said_on_stderr(at_once=context.info_name == "view"))
    if pairs:
        from dph.runs.evaluate.answers.tools import columns_named

        enter(columns_named(pairs))


def column_pairs(given: Sequence[str] | None) -> dict[str, str]:
    """Columns by the names that are used here, of NAME=COLUMN."""
    pairs = [(one, *one.partition("=")[::2]) for one in given or ()]
    if wrong := [one for one, name, column in pairs if not (name and column)]:
        raise typer.BadParameter(f"{wrong[0]!r} is not of the form NAME=COLUMN")
    return {name: column for _, name, column in pairs}


ColumnOption = Annotated[
    list[str] | None,
    option(
        "--column NAME=COLUMN",
        "Read COLUMN of the answer files as NAME (problem_id, prompt, response, gold, correct or "
        "set), such as response=answer or correct=exact_match; may be repeated.",
        callback=_name_columns,
    ),
]


def one_of(name: str, known: Collection[str]) -> str:
    """The name, if it is known: for options whose names are loaded when the command runs."""
    if name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


# Groups of verbs, and how their help is laid out.

COMMANDS = "Commands"
"""The section of verbs that a group does not divide."""


class Verb(TyperCommand):
    """A verb whose usage names its arguments as manuals do: RUN, [OTHER], RUN..."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        names = ["[OPTIONS]"]
        for one in filter(_is_argument, self.params):
            name = one.metavar or str(one.name).upper()
            repeated = f"{name}..." if one.nargs != 1 else name
            names.append(repeated if one.required else f"[{repeated}]")
        return names

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is None:
                continue
            if _is_argument(one):
                sections["Arguments"].append((one.metavar or one.name.upper(), record[1]))
            else:  # a default that is described stands without parentheses of its own
                told = re.sub(r"\[default: \((.*?)\)(?=[;\]])", r"[default: \1", record[1])
                sections["Options"].append((re.sub("[<>]", "", record[0]), told))
        for section, rows in sections.items():
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


class Verbs(TyperGroup):
    """A group that lists its verbs in sections, each by its summary, a whole line.

    A verb's section is what typer calls its panel (``rich_help_panel``).
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        shown = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        longest = max(len(name) for name, _ in shown)
        for name, verb in shown:
            if verb is None or verb.hidden:
                continue
            summary = verb.get_short_help_str(formatter.width)
            section = getattr(verb, "rich_help_panel", None)
            section = section if isinstance(section, str) else COMMANDS
            sections.setdefault(section, []).append((name.ljust(longest), summary))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


def group(name: str, summary: str | None = None, **how: Any) -> typer.Typer:
    """A group of verbs, which shows its help when nothing follows its name."""
    if summary is not None:
        how["help"] = summary
    return typer.Typer(
        name=name,
        cls=Verbs,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **how,
    )


def program(name: str, summary: str) -> typer.Typer:
    """The group of a program's verbs, with the options that it takes before a verb."""
    app = group(name, summary, context_settings={"help_option_names": ["-h", "--help"]})

    def print_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {__version__}")
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = option(
            "--version", "Print the version.", False, callback=print_version, is_eager=True
        ),
    ) -> None:
        pass

    return app


def add_verbs(
    to: typer.Typer, verbs: Mapping[str, Callable[..., None]], *, section: str = COMMANDS
) -> None:
    for name, verb in verbs.items():
        to.command(name, cls=Verb, rich_help_panel=section)(verb)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")

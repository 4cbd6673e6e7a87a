"""Groups of verbs, and how their help is laid out."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = "Commands"
"""The section of verbs that a group does not divide."""


class Verb(TyperCommand):
    """A verb whose usage names its arguments as manuals do: RUN, [OTHER], RUN..."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """The options' placeholder, then every argument."""
        return ["[OPTIONS]", *(_argument(one) for one in self.params if _is_argument(one))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, with placeholders and no types of Python."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is None:
                continue
            if _is_argument(one):
                sections["Arguments"].append((one.metavar or one.name.upper(), record[1]))
            else:
                sections["Options"].append((re.sub("[<>]", "", record[0]), _plain(record[1])))
        for section, rows in sections.items():
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


class Verbs(TyperGroup):
    """A group that lists its verbs in sections, each by its summary, a whole line.

    A verb's section is what typer calls its panel (``rich_help_panel``).
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections, in the order of their first verbs."""
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


def add_verbs(
    to: typer.Typer, verbs: Mapping[str, Callable[..., None]], *, section: str = COMMANDS
) -> None:
    """Add functions as verbs, by their names."""
    for name, verb in verbs.items():
        to.command(name, cls=Verb, rich_help_panel=section)(verb)


def _plain(text: str) -> str:
    """A help text whose described default stands without parentheses of its own."""
    return re.sub(r"\[default: \((.*?)\)(?=[;\]])", r"[default: \1", text)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    repeated = f"{name}..." if argument.nargs != 1 else name
    return repeated if argument.required else f"[{repeated}]"

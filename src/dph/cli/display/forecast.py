"""A forecast of a consolidation as text: a table, what it will cost, and what follows from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.results.charts.text_table import UNKNOWN, duration, percent, points

if TYPE_CHECKING:
    from rich.table import Table


def forecast_text(forecast: Mapping[str, Any], prompts: Path) -> str:
    """The content of ``forecast.json`` for people; ``prompts`` is the file of unlabelled ones."""
    from dph.cli.display.output import table_text

    return "\n\n".join(
        [table_text(_table(forecast, prompts)), _cost(forecast), _advice(forecast, prompts)]
    )


def _table(forecast: Mapping[str, Any], prompts: Path) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dph.runs.evaluate.consensus import COUNTED

    labelled, unlabelled = forecast["labelled"], forecast["unlabelled"]
    table = Table(
        box=SIMPLE_HEAD,
        caption=f"per cent with 95% intervals over prompts: {labelled['prompts']} "
        f"{labelled['where']}, none of an evaluation set, where the greedy answer is right on "
        f"{_share(labelled['greedy'])}; {unlabelled['prompts']} of {prompts.name}",
    )
    table.add_column("a consensus of")
    for counted in COUNTED:
        mark = " (the store)" if counted == forecast["counted"] else ""
        table.add_column(f"most {counted}{mark}", justify="right", no_wrap=True)
    found = [labelled[counted] for counted in COUNTED]
    shares = [unlabelled["share"][counted] for counted in COUNTED]
    table.add_row("labelled prompts with one", *(_share(one["share"]) for one in found))
    table.add_row(f"prompts of {prompts.name} with one", *map(_share, shares))
    table.add_row("consensus is right", *(_share(one["accuracy"]) for one in found))
    table.add_row("greedy is right on the same", *(_share(one["greedy"]) for one in found))
    table.add_row("difference in points", *(_points(one["difference"]) for one in found))
    return table


def _cost(forecast: Mapping[str, Any]) -> str:
    planned, spent = forecast["planned"], forecast["spent"]
    learning = planned["updates"] * planned["seconds_per_update"]
    parts = f"{duration(planned['store_seconds'])} and {duration(learning)}"
    return (
        f"to come: {planned['answers']:,} answers to {planned['prompts']:,} prompts, about "
        f"{planned['tokens']:,} tokens at {planned['tokens_per_second']:,.0f} a second, and "
        f"{planned['updates']:,} updates of {duration(planned['seconds_per_update'])}: about "
        f"{duration(60 * planned['minutes'])} ({parts}), without evaluations\nthe forecast drew "
        f"{spent['answers']:,} answers in {duration(spent['seconds'])}"
    )


def _advice(forecast: Mapping[str, Any], prompts: Path) -> str:
    """Meaning of the verdict, and advice."""
    from dph.runs.consolidation import TRAINING
    from dph.runs.evaluate.consensus import Worth

    worth, store = Worth(forecast["verdict"]), forecast["store"]
    counted = forecast["labelled"][forecast["counted"]]
    told = f"{_points(counted['difference'])} points on {counted['prompts']} labelled prompts"
    if worth is Worth.ABOVE:
        return f"agreement carries more information than the greedy answer: {told}"
    if worth is Worth.NOT_ABOVE:
        seen = f": {told}" if counted["prompts"] else ", as no labelled prompt has a consensus"
        shown = f"no more information than in the greedy answer is shown{seen}"
        if forecast["labelled"]["where"] == TRAINING:
            return (
                f"{shown}. RL has seen these prompts, so they say little about others. Give "
                "held-out prompts with answers (--labelled FILE); if they show nothing either, "
                "leave the model as it is"
            )
        return (
            f"{shown}. Without it a model becomes surer, not more often right. Try more labelled "
            "prompts (--forecast-prompts), or leave the model as it is"
        )
    nothing = "agreement carries no information here"
    if worth is Worth.ONE_TEXT:
        return (
            f"{nothing}: a result to {prompts.name} is hardly ever written in two ways (bare "
            f"numbers, for example), so different texts tilt nothing. Count answers (--set "
            f"{store}.values=agreement) where the table says that their consensus is right more "
            "often than greedy is, or let the model write how it comes to a result"
        )
    return (
        f"{nothing}: hardly any two answers to a prompt of {prompts.name} agree, so no answer is "
        f"raised above another. Draw more answers (--set {store}.answers=N), or leave the model "
        "as it is"
    )


def _share(found: Mapping[str, float] | None) -> str:
    return UNKNOWN if found is None else percent(found["mean"], [found["lo"], found["hi"]])


def _points(found: Mapping[str, float] | None) -> str:
    return UNKNOWN if found is None else points(found["mean"], [found["lo"], found["hi"]])

"""Options that are made of settings."""

from dataclasses import MISSING, dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from dph_corpus.cli.options import settings_options
from dph_corpus.settings import RecallSettings, SynthSettings, option


@dataclass(frozen=True, kw_only=True)
class Baking:
    minutes: int = option(20, "In the oven.", "N", least=1)
    hidden: int = 7
    flour: str = option(MISSING, "Of what.", "NAME", choices=("rye", "wheat"))
    fan_on: bool = option(True, "Hot air.", flag="--fan/--no-fan")


app = typer.Typer(rich_markup_mode=None)


@app.command()
@settings_options(Baking, after={"minutes": ("rests",)})
def bake(
    settings: Baking,
    out: Annotated[Path, typer.Option("--out")],
    rests: Annotated[int, typer.Option("--rests")] = 0,
) -> None:
    """Bake."""
    typer.echo(f"{settings} {out} {rests}")


def test_a_verb_is_given_settings_of_the_options_and_defaults_are_those_of_the_fields():
    found = CliRunner().invoke(app, ["--flour", "rye", "--out", "a", "--no-fan", "--rests", "2"])
    assert found.stdout == f"{Baking(flour='rye', fan_on=False)} a 2\n"


def test_what_is_required_comes_first_and_the_rest_in_the_order_of_the_fields():
    assert list(signature(bake).parameters) == ["flour", "out", "minutes", "rests", "fan_on"]


def test_a_number_out_of_range_and_an_unknown_choice_are_refused():
    common = ["--out", "a", "--flour"]
    assert (
        "greater than or equal to 1"
        in CliRunner().invoke(app, [*common, "rye", "--minutes", "0"]).output
    )
    found = CliRunner().invoke(app, [*common, "oats"])
    assert found.exit_code == 2
    assert "'oats' is not one of rye, wheat." in found.output


def test_every_setting_of_a_verb_is_an_option_or_has_a_default_that_no_option_changes():
    hidden = {
        kind: {f.name for f in kind.__dataclass_fields__.values() if "option" not in f.metadata}
        for kind in (RecallSettings, SynthSettings)
    }
    assert hidden == {
        RecallSettings: {"characters", "classifier", "examples"},
        SynthSettings: set(),
    }

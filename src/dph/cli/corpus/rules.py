"""``dph corpus rules``: what the rules of a preset are."""

from dataclasses import asdict
from typing import Annotated

import typer

from dph.cli.corpus.filter import PresetOption
from dph.cli.options import JsonOption


def rules(
    preset: PresetOption = "fixed",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/corpus-rules.md, all presets.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List a preset's rules: when a file is dropped, what for, and which rules can never fire."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dph.cli.display.output import json_text, table_text
    from dph.corpus.rules.document import rules_document
    from dph.corpus.rules.presets import load_preset

    if markdown:
        typer.echo(rules_document(), nl=False)
        return
    found = load_preset(preset)
    if as_json:
        rows = [
            {**asdict(rule), "conditions": {k: c.text for k, c in rule.conditions.items()}}
            for rule in found.rules.values()
        ]
        typer.echo(json_text({"preset": preset, "rules": rows, "left_out": dict(found.left_out)}))
        return
    table = Table("rule", "drops", "catches", box=SIMPLE_HEAD, pad_edge=False)
    for rule in found.rules.values():
        notes = [f"never fires: {rule.dead}"] if rule.dead else []
        notes += ["drops 4 of 5 of them"] if rule.thinned else []
        table.add_row(rule.name, rule.thresholds(), "; ".join([rule.catches, *notes]))
    typer.echo(table_text(table))
    for name, reason in found.left_out.items():
        typer.echo(f"\nleft out: {name}: {reason}")

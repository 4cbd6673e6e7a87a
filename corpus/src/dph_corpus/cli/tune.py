"""``dph-corpus tune``: look at what thresholds drop, change them, and look again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.display.output import json_text, table_text
from dph.cli.options import JsonOption
from dph.errors import SettingsError
from dph_corpus.cli.options import named_values, table_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from dph_corpus.rules.presets import Preset
    from dph_corpus.rules.tuning import FilterOutcome, SignalColumns

_RULES, _BARS = 15, " ▁▂▃▄▅▆▇█"
_HEAD = 300
"""Characters of an example."""


DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory written by dph-corpus filter.")
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME|FILE",
        help="Rules to look at [default: those that DIR was filtered by]; needed for a file.",
    ),
]
ThresholdsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        metavar="RULE[.KIND]=CONDITION",
        help="Another condition, as for dph-corpus filter; may be repeated.",
    ),
]
SourceOption = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="PATH", help="Input of the filter; shows the texts of examples."
    ),
]
RuleOption = Annotated[
    str | None,
    typer.Option("--rule", metavar="RULE", help="Show examples of what this rule drops."),
]
ExamplesOption = Annotated[
    int, typer.Option("--examples", min=0, metavar="N", help="Number of examples.")
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="FILE", help="Write the thresholds as a file for filter --preset."
    ),
]


def tune(
    directory: DirectoryArgument,
    preset: PresetOption = None,
    thresholds: ThresholdsOption = None,
    source: SourceOption = None,
    rule: RuleOption = None,
    examples: ExamplesOption = 3,
    save: SaveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what thresholds drop, without measuring again.

    It reads the signals in DIR. With --threshold it prints what would change, with examples. Look,
    change a threshold, look again, then --save the thresholds and filter with them.
    """
    from dph._base.files import write_text
    from dph.cli.results import require_out_file
    from dph_corpus.rules.own import open_preset, preset_text
    from dph_corpus.rules.presets import with_thresholds
    from dph_corpus.rules.tuning import outcome_of, read_signals

    if save is not None:
        require_out_file(save, "--save")
    columns = read_signals(directory)
    name, settled = _filtered_by(directory, preset)
    asked = named_values(thresholds or (), "--threshold", empty=True)
    before = open_preset(name, settled)
    after = with_thresholds(open_preset(name), {**settled, **asked})
    if rule is not None and rule not in after.rules:
        raise SettingsError(f"the preset {after.name} has no rule {rule!r}")
    outcomes = (outcome_of(before, columns), outcome_of(after, columns))
    if save is not None:
        write_text(save, preset_text(name, {**settled, **asked}))
    gone, left = (outcome.dropped for outcome in outcomes)
    changes = {"now dropped": left & ~gone, "now kept": gone & ~left}
    if as_json:
        typer.echo(json_text(_content(columns, outcomes, changes)))
        return
    typer.echo(table_text(_table(after, columns, outcomes, rule)))
    typer.echo(_summary(columns, *outcomes))
    shown = changes if asked else {"dropped": outcomes[1].dropped}
    for what, chosen in shown.items():
        limited = chosen & outcomes[what != "now kept"].drops[rule] if rule else chosen
        if asked or rule:
            _show_examples(what, limited, columns, source, rule, examples)
    if save is not None:
        typer.echo(f"written: {save}")


def _filtered_by(directory: Path, preset: str | None) -> tuple[str, dict[str, str]]:
    """The preset and thresholds of a filter's directory; another preset has none yet."""
    from dph_corpus.rules.presets import PRESETS
    from dph_corpus.shards import open_corpus

    settings = open_corpus(directory).manifest.history[-1]["settings"]
    name = settings["preset"]
    if preset is None and name not in PRESETS:
        raise SettingsError(
            f"{directory} was filtered by the file {name}.toml: pass it as --preset"
        )
    used = preset in (None, name) or Path(str(preset)).name == f"{name}.toml"
    return preset or name, dict(settings.get("thresholds", {})) if used else {}


def _content(columns: "SignalColumns", outcomes: Any, changes: Any) -> dict[str, Any]:
    before, after = outcomes
    return {
        "documents": len(columns.ids),
        "dropped": {"before": int(before.dropped.sum()), "after": int(after.dropped.sum())},
        **{name.replace(" ", "_"): [*columns.ids[chosen]] for name, chosen in changes.items()},
        "rules": {
            name: {
                "before": int(before.drops[name].sum()),
                "after": int(after.drops[name].sum()),
                "alone": int(after.alone(name).sum()),
            }
            for name in after.drops
        },
    }


def _table(preset: "Preset", columns: "SignalColumns", outcomes: Any, rule: str | None) -> "Table":
    """The rules that drop most, the changed ones first."""
    before, after = outcomes
    counts = {
        name: (int(before.drops[name].sum()), int(m.sum())) for name, m in after.drops.items()
    }
    ranked = sorted(counts, key=lambda n: (counts[n][0] == counts[n][1], -counts[n][1], n))
    chosen = [rule] if rule else [name for name in ranked if any(counts[name])][:_RULES]
    table = table_of("rule", "drops", numbers=("before", "now", "alone"), last="values, cut at |")
    for name in chosen:
        bars = _bars(preset, name, columns)
        old, new = counts[name]
        table.add_row(
            name,
            preset.rules[name].thresholds(),
            str(old),
            str(new),
            str(int(after.alone(name).sum())),
            bars,
        )
    return table


def _bars(preset: "Preset", name: str, columns: "SignalColumns") -> str:
    """The first histogram of a rule in one line, a | where it is cut."""
    from dph_corpus.rules.tuning import histogram

    found = histogram(preset.rules[name], columns)
    if found is None:
        return ""
    counts = found.counts.reshape(-1, 2).sum(axis=1)
    most = max(1, int(counts.max()))
    bars = [_BARS[round((count / most) ** 0.5 * (len(_BARS) - 1))] for count in counts.tolist()]
    edges = found.edges[::2]
    for _, cut in sorted(found.condition.parts, key=lambda part: -part[1]):
        bars.insert(int((edges <= cut).sum()) - 1, "|")
    return "".join(bars).rstrip()


def _summary(columns: "SignalColumns", before: "FilterOutcome", after: "FilterOutcome") -> str:
    told = []
    for outcome in (before, after):
        kept = ~outcome.dropped
        told.append(f"{kept.sum()} documents, {columns.sizes[kept].sum() / 1e6:.2f} MB")
    if (before.dropped == after.dropped).all():
        return f"kept of {len(columns.ids)} documents that rules read: {told[0]}"
    return f"kept of {len(columns.ids)} documents that rules read: {told[0]} -> {told[1]}"


def _show_examples(
    what: str,
    chosen: "NDArray[np.bool_]",
    columns: "SignalColumns",
    source: Path | None,
    rule: str | None,
    most: int,
) -> None:
    """Print documents, in the order of a corpus, which is that of a sample."""
    from dph_corpus.documents import position

    ids = sorted(columns.ids[chosen].tolist(), key=position)
    typer.echo(f"\n{what}: {len(ids)} documents" + (f" (by {rule})" if rule else ""))
    texts = _texts(source, ids[:most])
    for name in ids[:most]:
        place = int((columns.ids == name).nonzero()[0][0])
        values = columns.values.get(rule) if rule else None
        value = f" {rule} {values[place]:g}" if values is not None else ""
        typer.echo(
            f"-- {ascii(name)[1:-1]} ({columns.kinds[place]}, {columns.sizes[place]} bytes){value}"
        )
        if name in texts:
            typer.echo(texts[name])


def _texts(source: Path | None, ids: list[str]) -> dict[str, str]:
    """Beginnings of the documents' texts, without what a terminal would take for commands."""
    from dph_corpus.shards import open_corpus

    if source is None:
        return {}
    corpus = open_corpus(source)
    found = {name: corpus.find(name) for name in ids}
    return {
        name: "".join(c if c.isprintable() or c in "\n\t" else "?" for c in document.text[:_HEAD])
        for name, document in found.items()
        if document is not None
    }

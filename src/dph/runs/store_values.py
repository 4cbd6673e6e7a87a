"""The values of a store's answers as a step of a run: found where they fit, else worked out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from dph._base.files.parts import TableParts
from dph.recipe import StoreSettings, recipe_digest
from dph.records import Problem
from dph.runs.comparers import comparer
from dph.runs.presample.stores.making import CHUNK
from dph.runs.presample.stores.manifest import StoreManifest, StoreSource
from dph.runs.presample.stores.store import write_store
from dph.runs.presample.stores.values import agreement_counts, values_by_prompt
from dph.runs.presample.stores.valuing import Judges
from dph.runs.workbench import Workbench
from dph.tasks.agreement.golds import GOLDS, labelled

_INSTEAD = {
    "distributions": "set tilt = 0 or values = 'correct'",
    "answers": "set values = 'correct'",
}
"""What can be done without anybody who compares, by the targets of a store."""


@contextmanager
def judges_of(bench: Workbench, name: str, store: StoreSettings) -> Iterator[Judges | None]:
    """Who judges the answers of a store; None where nothing that training does asks for it.

    Raises:
        SettingsError: answers have to be compared, and nobody can.
    """
    by_consensus = bench.recipe.self_consistency.active and (
        bench.recipe.self_consistency.store == name
    )
    verifier = bench.verifier

    def has_gold(problem: Problem) -> bool:
        # Only the function itself knows what it reads: its problems count as labelled when asked.
        return labelled(problem, verifier) or (store.grades and verifier.name not in GOLDS)

    if store.compares or by_consensus:
        instead = "leave it out" if by_consensus else _INSTEAD[store.targets]
        with comparer(bench, store.agreement, key=f"stores.{name}", instead=instead) as known:
            yield Judges(
                comparer=known, verifier=verifier, labelled=has_gold, all_labelled=store.grades
            )
    elif store.grades:
        yield Judges(comparer=None, verifier=verifier, labelled=has_gold, all_labelled=True)
    else:
        yield None


def value_parts(path: Path, judges: Judges, source: StoreSource) -> TableParts:
    """Where the values of a store's answers are kept until all are known."""
    drawn = source.model_dump(mode="json", exclude={"model"})
    return TableParts(
        path.with_name(f"{path.name}.values.partial"),
        digest=recipe_digest(drawn, judges.source(), CHUNK),
    )


def write_valued_store(
    path: Path,
    groups: Sequence[pa.Table],
    values: pa.Table,
    judges: Judges,
    *,
    source: StoreSource,
    about: dict[str, int],
) -> StoreManifest:
    """Write a store with what its answers came to."""
    return write_store(
        path,
        source=source,
        groups=groups,
        values=values,
        value_source=judges.source(),
        about={**about, **agreement_counts(values_by_prompt(values))},
    )

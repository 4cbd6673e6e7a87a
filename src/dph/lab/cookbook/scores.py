"""scores.json of a cookbook: what was measured of every model, and by what it was computed."""

import torch

from dph._base.files import write_json
from dph._base.provenance import versions
from dph.lab.cookbook.kitchen import Kitchen
from dph.lab.cookbook.model_stages import evaluations

SCORES = "scores.json"
SCHEMA = 1


def write_scores(kitchen: Kitchen) -> None:
    """Write ``scores.json`` into the cookbook's directory, if anything was measured.

    ``models`` has the ``sets`` of each ``evaluation.json``, by the name that the report has. Scores
    depend on the kernels that ``computed_by`` ends with: another processor's round otherwise.
    """
    if kitchen.cookbook.rl is None:
        return
    found = evaluations(kitchen)
    document = {
        "schema": SCHEMA,
        "seed": kitchen.cookbook.seed,
        "model_seed": kitchen.cookbook.seed_of_models,
        "computed_by": computed_by(),
        "samples": next(iter(found.values()))["samples"],
        "models": {name: evaluation["sets"] for name, evaluation in found.items()},
    }
    write_json(kitchen.directory / SCORES, document)


def computed_by() -> str:
    """The versions that decide numbers, and the kernels of this processor."""
    return versions(torch.backends.cpu.get_cpu_capability())

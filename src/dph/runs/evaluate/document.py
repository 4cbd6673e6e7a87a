"""evaluation.json: what was measured of one model."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph.errors import DataError
from dph.runs.evaluate.intervals import RESAMPLES
from dph.runs.evaluate.pass_at_k import require_k_fits
from dph.runs.evaluate.retention import RETENTION_K
from dph.runs.evaluate.scores import SetScores, set_summary

SCHEMA = 2


def evaluation_document(
    model: str,
    samples: int,
    sets: Mapping[str, SetScores],
    base: Mapping[str, SetScores] | None,
    ks: Sequence[int],
    seed: int,
    *,
    retention_k: int = RETENTION_K,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The content of evaluation.json.

    ``base`` are the initial policy's scores on the same sets, for keep and explore; give a base
    model its own scores. None leaves keep and explore unknown.

    Raises:
        DataError: a set has other samples than ``samples``, or the base lacks a set or has other
            problems in it.
        SettingsError: a k is not between 1 and ``samples``.
    """
    for k in ks:
        require_k_fits(k, samples)
    summaries = {}
    for name, scores in sets.items():
        if scores.samples != samples:
            raise DataError(f"set {name!r} has {scores.samples} samples a problem, not {samples}")
        if base is not None and name not in base:
            raise DataError(f"the base model was not evaluated on set {name!r}")
        summaries[name] = set_summary(
            scores,
            ks=ks,
            seed=seed,
            base=base[name] if base is not None else None,
            retention_k=retention_k,
            resamples=resamples,
        )
    return {"schema": SCHEMA, "model": model, "samples": samples, "sets": summaries}

"""What is kept when a loss is not finite: the rows it came from, to be looked at."""

import math
from pathlib import Path
from typing import Any

from dph._base.files import write_json
from dph.runs.presample.distributions import DistributionSample
from dph.runs.train.rows import PolicyRow, WeightedRow
from dph.runs.train.updating import NonFiniteLossError


def save_failed_batch(path: Path, error: NonFiniteLossError, *, step: int) -> None:
    """Write the rows as JSON; numbers that are not finite become strings."""
    rows = [_plain(weighted) for weighted in error.rows]
    write_json(path, {"step": step, "error": str(error), "rows": rows})


def _plain(weighted: WeightedRow) -> dict[str, Any]:
    row = weighted.row
    plain: dict[str, Any] = {
        "kind": _kind(weighted),
        "weight": _number(weighted.weight),
        "prompt_ids": list(row.prompt_ids),
        "completion_ids": list(row.completion_ids),
        "ref_logprobs": [_number(x) for x in row.ref_logprobs or ()],
    }
    if isinstance(row, PolicyRow):
        return {
            **plain,
            "advantage": _number(row.advantage),
            "old_logprobs": [_number(x) for x in row.old_logprobs],
        }
    if isinstance(row, DistributionSample):
        plain |= {
            "token_ids": [list(ids) for ids in row.token_ids],
            "target_logprobs": [[_number(x) for x in values] for values in row.logprobs],
            "log_tails": [_number(x) for x in row.log_tails],
        }
    return {"problem_id": row.problem_id, **plain}


def _kind(weighted: WeightedRow) -> str:
    if isinstance(weighted.row, PolicyRow):
        return "policy"
    return "distribution" if isinstance(weighted.row, DistributionSample) else "rehearsal"


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)

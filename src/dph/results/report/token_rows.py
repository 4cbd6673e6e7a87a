"""The tokens of answers that have them (``evaluate.token_details``), as the page colours them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dph.runs.evaluate.tokens_file import TOKENS_FILE, read_token_details

Tokens = Mapping[tuple[str, str, int], Mapping[str, list[Any]]]
"""By set, problem and sample index."""
_DIGITS = 3


def token_rows(run: Path) -> Tokens:
    """Text, log-prob, entropy and log-ratio to the initial policy of each token, in nats.

    Empty where the run kept none.

    Raises:
        DataError: the file is damaged or of a later version.
    """
    if not (run / TOKENS_FILE).is_file():
        return {}
    return {
        (row["set"], row["problem_id"], row["sample_index"]): token_detail(row)
        for row in read_token_details(run / TOKENS_FILE).to_pylist()
    }


def token_detail(row: Mapping[str, Any]) -> Mapping[str, list[Any]]:
    """A row of ``tokens.parquet`` as pages show it."""
    return {
        "pieces": row["pieces"],
        "logprob": [round(value, _DIGITS) for value in row["logprobs"]],
        "entropy": [round(value, _DIGITS) for value in row["entropy"]],
        "ratio": [
            round(mine - theirs, _DIGITS)
            for mine, theirs in zip(row["logprobs"], row["ref_logprobs"], strict=True)
        ],
    }

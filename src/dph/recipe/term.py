"""What a row of the tables of terms is."""

from dataclasses import dataclass
from typing import Any

from pydantic import create_model

from dph.recipe.section import Section

LOGPROBS, REF_LOGPROBS, BASE_CORRECT = "logprobs", "ref_logprobs", "base_correct"
READS = frozenset({LOGPROBS, REF_LOGPROBS, BASE_CORRECT})
"""What an advantage may ask for beside rewards: the samples' log-probs and lengths, the initial
policy's log-probs of them, and how many answers of that policy were right in pre-sampling."""
READ_IN_OWN_LOOP = {
    BASE_CORRECT: "how many answers of the initial policy to a problem were right",
    REF_LOGPROBS: "the initial policy's log-probs of new samples",
}
"""Those that other engines do not give an advantage, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A row: where a term's formula is, and what can be set of it.

    ``reads_reference``: it needs the initial policy's log-probs of *new* samples, and so that
    model in every step. ``reads_distributions``: it acts on stored next-token distributions, not
    on the log-probs of stored tokens. ``reads``: what an advantage needs beside rewards, some of
    ``READS``.
    """

    path: str
    summary: str
    parameters: type[Section]
    reads_reference: bool = False
    reads_distributions: bool = False
    reads: frozenset[str] = frozenset()


def parameters(**fields: Any) -> type[Section]:
    """The table of settings with these fields, each a type and a ``Field``."""
    return create_model("Parameters", __base__=Section, **fields)

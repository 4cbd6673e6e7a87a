"""Provenance of a store, and counts of its answers."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from dph._base.files import read_json
from dph.errors import DataError, PoolError
from dph.runs.presample.manifest import validated

FORMAT = 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreSource(_Record):
    """Inputs that decide answers and distributions. Stores with equal sources hold the same."""

    model: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    prompts: str
    """Where they come from: ``unlabelled``, ``train`` ..."""
    prompts_fingerprint: str
    chat: bool
    system_prompt: str
    answers: int
    top: int | Literal["all"]
    temperature: float
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    dtype: str
    seed: int
    engine: str = "torch"


class ValueSource(_Record):
    """Inputs that decide the values of answers: their comparer, and their verifier."""

    compared_by: str = ""
    """A verifier, or a function of one's own; '' where answers are not compared."""
    compared_version: str = ""
    graded_by: str = ""
    """'' where answers are not graded."""
    graded_version: str = ""
    compared_settings: dict[str, Any] = {}
    graded_settings: dict[str, Any] = {}

    @field_validator("compared_settings", "graded_settings", mode="before")
    @classmethod
    def _as_the_manifest_will_say_it(cls, value: Any) -> Any:
        return json.loads(json.dumps(dict(value)))

    def covers(self, wanted: "ValueSource") -> bool:
        """Whether these values are those that ``wanted`` asks for, or more."""
        have, want = self.model_dump(), wanted.model_dump()
        return all(
            have[f"{kind}_{part}"] == want[f"{kind}_{part}"]
            for kind in ("compared", "graded")
            for part in ("by", "version", "settings")
            if want[f"{kind}_by"]
        )


class StoreCounts(_Record):
    """Sizes, and what agreement came to; a share of nothing is None."""

    prompts: int
    answers: int
    tokens: int
    """Of all answers."""
    distributions: int
    """Stored: answers that begin alike share them."""
    cut_off: int
    bytes_per_token: float
    """Of the whole store, for each token of an answer."""
    prompts_that_agree: float | None = None
    """Share of the prompts of which two answers or more agree."""
    agreement: float | None = None
    """Mean share of the other answers that agree with one."""
    labelled: int = 0
    """Prompts with a gold answer."""
    correct: float | None = None
    """Share of the answers to those that are correct."""
    agreed_wrong: float | None = None
    """Of the labelled prompts that agree, the share whose largest class is wrong."""


class StoreManifest(_Record):
    """The content of ``manifest.json``."""

    format: Literal[1]
    source: StoreSource
    values: ValueSource | None
    """None where answers were neither compared nor graded."""
    counts: StoreCounts
    files: dict[str, str]
    """SHA-256 of every other file, in hex."""


def read_store_manifest(path: Path) -> StoreManifest:
    """Read the ``manifest.json`` of a store.

    Raises:
        PoolError: it is missing, damaged, or of a format this version does not know.
    """
    try:
        content = read_json(path)
    except DataError as error:
        raise PoolError(f"{path.parent} is not a store of distributions: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT or "source" not in content or "top" not in content["source"]:
        raise PoolError(
            f"{path} is not a manifest of a store of distributions, format {FORMAT} (its format is "
            f"{found!r}); a pool is named by an anchor's store, not by its distributions"
        )
    return validated(StoreManifest, content, path)

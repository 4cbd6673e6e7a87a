"""Is the pool that of this run, and do its problems fit?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import overload

import pyarrow as pa
from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase

from dph.engines.verl.prompts import prompt_ids
from dph.engines.verl.settings import SharedSettings, TrainSettings, precision
from dph.errors import DataError, SettingsError
from dph.model.policies import tokenizer_fingerprint
from dph.records import Problem
from dph.runs.presample.manifest import (
    Manifest,
    read_manifest,
    require_policy,
    require_usable,
    require_whole,
)
from dph.runs.presample.tables import RehearsalSample, read_rehearsal, rehearsal_sample


class StoredAnswers(Sequence[RehearsalSample]):
    """``rehearsal.parquet`` as a sequence: numbers in columns, a sample only while it is used.

    100,000 answers of 500 tokens take 0.4 GB, whatever the number of epochs.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.combine_chunks()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> RehearsalSample: ...

    @overload
    def __getitem__(self, index: slice) -> list[RehearsalSample]: ...

    def __getitem__(self, index: int | slice) -> RehearsalSample | list[RehearsalSample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} stored answers, got index {index}")
        (row,) = self._table.slice(index % len(self), 1).to_pylist()
        return rehearsal_sample(row)


def open_stored(path: Path) -> tuple[Manifest, StoredAnswers]:
    """The manifest of the pool in ``path`` and its stored answers, after comparing every hash.

    Raises:
        PoolError: there is no pool, or a file is not the one that was written.
    """
    manifest = read_manifest(path)
    require_whole(path, manifest)
    return manifest, StoredAnswers(read_rehearsal(path))


def require_fitting_pool(
    settings: TrainSettings,
    config: DictConfig,
    manifest: Manifest,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Refuse a pool that was made from something else.

    The weights are not compared here: at step 0 the engine's log-probs tell whose they are.

    Raises:
        PoolError: names what differs, both values, and what to do; or the pool holds too little.
    """
    _require_policy(
        settings.pool,
        manifest,
        config,
        tokenizer,
        also={"chat": settings.chat, "system_prompt": settings.system_prompt},
    )
    require_usable(
        settings.pool,
        manifest,
        rehearses=settings.objective.rehearses_pool,
        explores=int(settings.problems == "exploration"),
    )


def open_pools(
    settings: TrainSettings, config: DictConfig, tokenizer: PreTrainedTokenizerBase
) -> dict[str, Sequence[RehearsalSample]]:
    """The stored answers of every anchor that weighs anything, by its name.

    The pool of the run is looked at where it is rehearsed or says which problems to explore.

    Raises:
        PoolError: a pool is missing, damaged, or was made from something else.
    """
    opened: dict[Path, Sequence[RehearsalSample]] = {}
    if settings.reads_pool:
        manifest, opened[settings.pool] = open_stored(settings.pool)
        require_fitting_pool(settings, config, manifest, tokenizer)
    stored = {}
    for name, anchor in settings.objective.active_anchors.items():
        path = anchor.pool or settings.pool
        if path not in opened:
            other, opened[path] = open_stored(path)
            _require_policy(path, other, config, tokenizer)
        stored[name] = opened[path]
    return stored


def _require_policy(
    place: Path,
    found: Manifest,
    config: DictConfig,
    tokenizer: PreTrainedTokenizerBase,
    also: Mapping[str, object] = MappingProxyType({}),
) -> None:
    require_policy(
        place,
        found,
        tokenizer_fingerprint=tokenizer_fingerprint(tokenizer),
        temperature=float(config.actor_rollout_ref.rollout.temperature),
        dtype=precision(config),
        also=also,
    )


def require_prompts_fit(
    problems: Sequence[Problem],
    settings: SharedSettings,
    config: DictConfig,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Refuse problems whose prompts are longer than verl will take, before anything starts.

    Raises:
        DataError: a prompt is empty.
        ModelError: a prompt is a chat, and the tokenizer has no template for it.
        SettingsError: a prompt is longer than ``rollout.prompt_length``.
    """
    limit = int(config.actor_rollout_ref.rollout.prompt_length)
    for problem in problems:
        length = len(prompt_ids(tokenizer, problem, settings))
        if not length:
            raise DataError(f"the prompt of problem {problem.problem_id!r} is empty")
        if length > limit:
            raise SettingsError(
                f"the prompt of problem {problem.problem_id!r} has {length} tokens, above "
                f"data.max_prompt_length={limit}"
            )

"""Stored answers of fitting pools, mixed into every update of a verl trainer's actor workers."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, overload
from uuid import uuid4

import pyarrow as pa
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from transformers import PreTrainedTokenizerBase
from verl.utils import tensordict_utils as tu

from dph.engines.verl.advantages import answers_of, is_padding
from dph.engines.verl.rows import SCALES, STORED, stored_rows
from dph.engines.verl.settings import TrainSettings, precision
from dph.errors import DataError, SettingsError
from dph.loss.objectives import Reduction, row_weights
from dph.model.policies import tokenizer_fingerprint
from dph.runs.presample.manifest import (
    Manifest,
    read_manifest,
    require_policy,
    require_usable,
    require_whole,
)
from dph.runs.presample.tables import RehearsalSample, read_rehearsal, rehearsal_sample
from dph.runs.train.rows import length_of, require_lengths, stored_of_step


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
    """The manifest of the pool in ``path`` and its stored answers, after comparing every hash."""
    manifest = read_manifest(path)
    require_whole(path, manifest)
    return manifest, StoredAnswers(read_rehearsal(path))


def require_fitting_pool(
    settings: TrainSettings,
    config: DictConfig,
    manifest: Manifest,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Refuse a pool that was made from something else, or holds too little.

    The weights are not compared here: at step 0 the engine's log-probs tell whose they are.
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
    """The stored answers of every anchor with a weight, by its name.

    The run's own pool is also opened if it says which problems to explore.
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
    reduction, most = settings.objective.reduction, config.actor_rollout_ref.rollout.response_length
    for path, samples in opened.items():
        require_lengths(samples, reduction=reduction, most=most, place=path)
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


# The places of stored answers among the policy's rows, and their weights: plain arithmetic.
#
# verl gives data-parallel rank r the r-th contiguous part of a batch and cuts that into
# consecutive mini-batches. The order made here gives every (rank, mini-batch) the policy rows
# that it has without us, in their order, followed by an equal number of stored rows.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Division of a batch: data-parallel ranks, and mini-batches on each."""

    ranks: int
    minibatches: int

    @property
    def count(self) -> int:
        return self.ranks * self.minibatches


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """An order of all rows, numbered policy first, and the rows of each mini-batch."""

    order: tuple[int, ...]
    minibatches: tuple[tuple[int, ...], ...]


def filled(count: int, cells: Cells, *, multiple: int = 1) -> int:
    """``count`` rounded up, so that every cell can have the same multiple of ``multiple`` rows."""
    step = cells.count * multiple
    return -(-count // step) * step


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Stored rows of one anchor: their lengths, and how many at the end are padding."""

    lengths: Sequence[int]
    filling: int = 0


def lay_out_all(policy: int, anchors: Sequence[StoredRows], cells: Cells) -> RowOrder:
    """Deal every anchor's rows out to the cells in turn, the longest first, back and forth.

    Padding comes after the rows that count, so that the mini-batches' numbers of answers that count
    differ by at most one for each anchor. Rows are numbered policy first, then anchor by anchor.
    """
    for name, rows in (("policy", policy), *(("stored", len(a.lengths)) for a in anchors)):
        if rows % cells.count:
            raise SettingsError(
                f"{rows} {name} rows do not divide by {cells.ranks} ranks x {cells.minibatches} "
                "mini-batches"
            )
    share = policy // cells.count
    mine = [list(range(cell * share, (cell + 1) * share)) for cell in range(cells.count)]
    first = policy
    for anchor in anchors:
        for cell, dealt in enumerate(_deal(anchor.lengths, cells.count, anchor.filling)):
            mine[cell] += [first + i for i in dealt]
        first += len(anchor.lengths)
    minibatches: list[list[int]] = [[] for _ in range(cells.minibatches)]
    for cell, rows_of_cell in enumerate(mine):
        minibatches[cell % cells.minibatches] += rows_of_cell
    order = tuple(row for rows_of_cell in mine for row in rows_of_cell)
    return RowOrder(order=order, minibatches=tuple(map(tuple, minibatches)))


def _deal(lengths: Sequence[int], cells: int, filling: int) -> list[list[int]]:
    used = len(lengths) - filling
    longest_first = sorted(range(used), key=lambda i: (-lengths[i], i))
    there_and_back = [*range(cells), *reversed(range(cells))]
    dealt: list[list[int]] = [[] for _ in range(cells)]
    for turn, index in enumerate(longest_first):
        dealt[there_and_back[turn % len(there_and_back)]].append(index)
    rest = iter(range(used, len(lengths)))
    for rows in dealt:
        rows += [next(rest) for _ in range(len(lengths) // cells - len(rows))]
    return dealt


class RowScales(NamedTuple):
    """Of every row its share in its anchor's term, and the factor of the policy term."""

    weight: tuple[float, ...]
    policy_scale: tuple[float, ...]


def row_scales(
    layout: RowOrder,
    tokens: Sequence[int],
    *,
    policy: int,
    used: Sequence[bool],
    reduction: Reduction,
    max_tokens: int,
    normalisation: Literal["separate", "rows"],
    sources: Sequence[int] | None = None,
) -> RowScales:
    """Scales of every row, numbered as in ``layout``.

    ``separate``: each term is a mean over its own rows (the package's loss). ``rows``: all are
    taken over all rows, as in the paper's code; up to one factor that is ``separate`` with
    eta * stored rows / policy rows.

    ``tokens`` are the answer tokens of each row that count; ``used`` says which rows are no
    padding; ``reduction`` is that of the anchors' terms, with ``max_tokens`` for ``fixed_length``.
    ``sources`` has 0 or the number of the anchor from 1 for each row; by default there is one.
    """
    sources = sources or [int(row >= policy) for row in range(len(tokens))]
    weight, scale = [0.0] * len(tokens), [0.0] * len(tokens)
    for rows in layout.minibatches:
        sides = [[r for r in rows if sources[r] == kind] for kind in range(max(sources) + 1)]
        counts = [sum(used[r] for r in side) for side in sides]
        shares = [1.0] * len(sides)
        if normalisation == "rows":
            shares = [count / sum(counts) for count in counts]
        for side, share in zip(sides, shares, strict=True):
            lengths = torch.tensor([tokens[r] if used[r] else 0 for r in side], dtype=torch.int64)
            values = row_weights(lengths, reduction=reduction, max_tokens=max_tokens).tolist()
            for row, value in zip(side, values, strict=True):
                weight[row] = share * value
        for row in rows:
            scale[row] = shares[0]
    return RowScales(weight=tuple(weight), policy_scale=tuple(scale))


FIELDS = (
    *("input_ids", "position_ids", "prompts", "responses", "response_mask", "loss_mask"),
    *("old_log_probs", "advantages"),
)
"""Fields of every row that an update of the actor reads."""

_OPTIONAL = ("ref_log_prob", "rollout_is_weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """Stored rows of one update, anchor by anchor: which anchor, and which are no padding."""

    keys: list[str]
    samples: list[RehearsalSample]
    sources: list[int]
    used: list[bool]
    anchors: list[StoredRows]


class MixingActors:
    """Stands in for a trainer's ``actor_rollout_wg``; all but ``update_actor`` passes through.

    Each update reads its stored answers from the pool, puts them into the transfer queue next to
    the policy's rows, and takes them out again afterwards: nothing grows with the number of steps.

    ``stores`` are the stored answers of every anchor. ``step`` gives the number of the next update,
    from 1, which with ``dph.seed`` decides the stored answers, exactly as in ``dph train``, so that
    a resumed run continues with the right ones.
    """

    def __init__(
        self,
        actors: Any,
        config: DictConfig,
        settings: TrainSettings,
        stores: Mapping[str, Sequence[RehearsalSample]],
        step: Callable[[], int],
    ) -> None:
        self._actors, self._config, self._settings = actors, config, settings
        self._stores, self._step = stores, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actors, name)

    def update_actor(self, batch: KVBatchMeta) -> TensorDict:
        """Verl's update, on policy rows and stored rows."""
        ranks = max(self._actors._dispatch_info["actor"]) + 1
        minibatches = len(batch) // batch.extra_info["mini_batch_size"]
        cells = Cells(ranks=ranks, minibatches=minibatches)
        drawn = self._draw(cells)
        mixed = self._mixed(batch, drawn, cells)
        try:
            output: TensorDict = self._actors.update_actor(mixed)
        finally:
            tq.kv_clear(keys=drawn.keys, partition_id=batch.partition_id)
        counted = [sample for sample, used in zip(drawn.samples, drawn.used, strict=True) if used]
        metrics = dict(output["metrics"])
        metrics["dph/stored_rows_min"] = metrics["dph/stored_rows"]
        metrics["dph/stored_rows_max"] = metrics["dph/stored_rows"]
        metrics["dph/log_ratio_first"] = metrics["dph/log_ratio_max"][:1]
        metrics["dph/policy_rows"] = [len(answers_of(batch))]
        metrics["dph/stored_digest"] = [stored_digest(counted)]
        tu.assign_non_tensor(output, metrics=metrics)
        return output

    def _draw(self, cells: Cells) -> _Drawn:
        settings, actor = self._settings, self._config.actor_rollout_ref.actor
        # verl wants micro-batches of a fixed size to divide a rank's mini-batch.
        multiple = 1 if actor.use_dynamic_bsz else actor.ppo_micro_batch_size_per_gpu
        samples: list[RehearsalSample] = []
        sources: list[int] = []
        used: list[bool] = []
        anchors: list[StoredRows] = []
        for source, (name, anchor) in enumerate(settings.objective.active_anchors.items(), start=1):
            stored, count = self._stores[name], settings.rehearsal_per_step
            drawn = stored_of_step(stored, anchor, self._step(), count=count, seed=settings.seed)
            shortest = min(drawn, key=_tokens)
            filling = filled(len(drawn), cells, multiple=multiple) - len(drawn)
            rows = [*drawn, *[shortest] * filling]
            anchors.append(StoredRows(lengths=list(map(_tokens, rows)), filling=filling))
            samples += rows
            sources += [source] * (len(drawn) + filling)
            used += [True] * len(drawn) + [False] * filling
        # "<uid>_<session>_<index>": the form of all of verl's keys.
        keys = [f"{uuid4().hex}_{i}_0" for i in range(len(samples))]
        return _Drawn(keys=keys, samples=samples, sources=sources, used=used, anchors=anchors)

    def _mixed(self, batch: KVBatchMeta, drawn: _Drawn, cells: Cells) -> KVBatchMeta:
        partition, policy = batch.partition_id, len(batch)
        optional = [name for name in _OPTIONAL if name in (batch.fields or ())]
        images = [name for name in ("multi_modal_inputs",) if name in (batch.fields or ())]
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=partition, select_fields=["response_mask", *images]
        )
        if any(getattr(row, "data", row) for name in images for row in data[name]):
            raise DataError(
                "a prompt has images, video or sound (multi_modal_inputs), which an update with "
                "stored answers would leave out: use prompts of text"
            )
        tokens = [int(row.sum()) for row in data["response_mask"].unbind()]
        tokens += [length_of(sample) for sample in drawn.samples]
        layout = lay_out_all(policy, drawn.anchors, cells)
        scales = row_scales(
            layout,
            tokens,
            policy=policy,
            used=[*(not is_padding(tag) for tag in batch.tags), *drawn.used],
            reduction=self._settings.objective.reduction,
            max_tokens=self._config.actor_rollout_ref.rollout.response_length,
            normalisation=self._settings.normalisation,
            sources=[*[0] * policy, *drawn.sources],
        )
        ours = stored_rows(drawn.samples, optional, sources=drawn.sources)
        theirs = {STORED: torch.zeros(policy, dtype=torch.int64)}
        for name, values in zip(SCALES, map(torch.tensor, scales), strict=True):
            theirs[name], ours[name] = values[:policy], values[policy:]
        tq.kv_batch_put(
            keys=batch.keys, partition_id=partition, fields=TensorDict(theirs, batch_size=policy)
        )
        tags = [{"status": "success", "seq_len": _tokens(sample)} for sample in drawn.samples]
        tq.kv_batch_put(keys=drawn.keys, partition_id=partition, fields=ours, tags=tags)
        keys, all_tags = [*batch.keys, *drawn.keys], [*batch.tags, *tags]
        return KVBatchMeta(
            partition_id=partition,
            keys=[keys[i] for i in layout.order],
            tags=[all_tags[i] for i in layout.order],
            fields=[*FIELDS, *optional, STORED, *SCALES],
            extra_info={
                **batch.extra_info,
                # Stays the policy's: verl's sequence means divide by it.
                "global_batch_size": batch.extra_info["global_batch_size"],
                "mini_batch_size": len(keys) // cells.minibatches,
                "dataloader_kwargs": {"shuffle": False},
            },
        )


def _tokens(sample: RehearsalSample) -> int:
    return len(sample.prompt_ids) + len(sample.completion_ids)


def stored_digest(samples: Sequence[RehearsalSample]) -> int:
    """A number that identifies the stored answers of an update, in their order."""
    names = [f"{sample.problem_id} {sample.sample_index}" for sample in samples]
    return zlib.crc32("\n".join(names).encode())

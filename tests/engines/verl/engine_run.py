"""One rank of a group that runs verl's own TrainingWorker on mixed rows; prints what it reports."""

import copy
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.config import (
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    PolicyLossConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

import first_step
from dph.engines.verl.loss import WorkerLoss
from dph.engines.verl.mixing import Cells, StoredRows, filled, lay_out_all, row_scales
from dph.engines.verl.rows import SCALES, STORED, answer_rows, jagged, spread, stored_rows
from dph.engines.verl.settings import OWN_SURROGATE
from dph.recipe import ObjectiveSettings
from engines.verl.rows import FAR, HIGH, LOW, TEMPERATURE, policy_rows, stored_samples
from tiny_models import build_tokenizer

DEFINITION = {"definition": "jensen_shannon_definition"}
FLOAT32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


def make_worker(model):
    return TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=str(model),
                external_lib="engines.verl.cpu_workers",
                use_remove_padding=False,
                override_config={"attn_implementation": "sdpa"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                mixed_precision=FLOAT32,
                use_torch_compile=False,
                use_dynamic_bsz=False,
                micro_batch_size_per_gpu=2,
                max_token_len_per_gpu=64,
                infer_max_token_len_per_gpu=64,
                infer_micro_batch_size_per_gpu=2,
            ),
            # A learning rate of 0: every case starts from the same weights.
            optimizer_config=FSDPOptimizerConfig(lr=0.0, weight_decay=0.0, total_training_steps=9),
        )
    )


def make_actor(**changes):
    values = {
        "strategy": "fsdp2",
        "rollout_n": 4,
        "ppo_micro_batch_size_per_gpu": 2,
        "clip_ratio_low": LOW,
        "clip_ratio_high": HIGH,
        "loss_agg_mode": "token-mean",
        "use_torch_compile": False,
    }
    return FSDPActorConfig(**{**values, **changes})


def all_rows(policy, stores, *, with_reference):
    """All kinds in one table, policy first and then anchor by anchor."""
    written = [getattr(r, "written", None) for r in policy]
    ours = answer_rows([r.prompt_ids for r in policy], [r.completion_ids for r in policy], written)
    old = [spread(r.old, mine) for r, mine in zip(policy, written, strict=True)]
    ours["old_log_probs"] = jagged(old)
    ours["advantages"] = jagged(
        [torch.full_like(row, r.advantage) for row, r in zip(old, policy, strict=True)]
    )
    ours[STORED] = torch.zeros(len(policy), dtype=torch.int64)
    optional = ("ref_log_prob",) if with_reference else ()
    if with_reference:
        ours["ref_log_prob"] = jagged([torch.tensor(r.reference) for r in policy])
    parts = [ours]
    for source, samples in enumerate(stores, start=1):
        if samples:
            parts.append(stored_rows(samples, optional, sources=[source] * len(samples)))
    return {
        name: [row for part in parts for row in part[name].unbind()] for name in list(ours.keys())
    }


def first_step_rows(*, acts):
    """The rollout of which all engines take the same first step."""
    return [
        SimpleNamespace(
            prompt_ids=row.prompt_ids,
            completion_ids=row.completion_ids,
            old=row.old_logprobs,
            advantage=row.advantage,
            written=row.written,
        )
        for group in first_step.policy_groups(acts=acts)
        for row in group
    ]


def batch_of_rank(case, rank, ranks):
    kind = case.get("first_step")
    acts = kind == "trajectories"
    policy = first_step_rows(acts=acts) if kind else policy_rows(case["policy"])
    stores = [stored_samples(case["stored"])] if case["stored"] else []
    if kind:
        stores = [first_step.stored_rows(acts=acts)]
    if "far" in case:
        stores.append(stored_samples(case["far"], seed=FAR))
    cells = Cells(ranks=ranks, minibatches=case.get("minibatches", 1))
    used = [True] * len(policy)
    for samples in stores:
        count = len(samples)
        samples += samples[:1] * (filled(count, cells, multiple=case.get("micro", 2)) - count)
        used += [i < count for i in range(len(samples))]
    rest = iter(used[len(policy) :])
    layout = lay_out_all(
        len(policy),
        [
            StoredRows(
                lengths=[len(s.prompt_ids) for s in samples],
                filling=[next(rest) for _ in samples].count(False),
            )
            for samples in stores
        ],
        cells,
    )
    columns = all_rows(policy, stores, with_reference=case["divergence"] == "definition")
    if case.get("rejects"):  # verl leaves ``loss_mask`` whole
        masks = columns["response_mask"]
        columns["response_mask"] = [mask * (mask.cumsum(0) % 3 != 0) for mask in masks]
    tokens = [int(mask.sum()) for mask in columns["response_mask"]]
    scales = row_scales(
        layout,
        tokens,
        policy=len(policy),
        used=used,
        reduction=case.get("reduction", "token_mean"),
        max_tokens=8,
        normalisation=case.get("normalisation", "separate"),
        sources=[0] * len(policy)
        + [source for source, samples in enumerate(stores, start=1) for _ in samples],
    )
    share = len(layout.order) // ranks
    mine = layout.order[rank * share : (rank + 1) * share]
    fields = {
        name: torch.stack([rows[i] for i in mine])
        if name == STORED
        else jagged([rows[i] for i in mine])
        for name, rows in columns.items()
    }
    for name, column in zip(SCALES, scales, strict=True):
        fields[name] = torch.tensor([column[i] for i in mine])
    data = TensorDict(fields, batch_size=len(mine))
    tu.assign_non_tensor(
        data,
        global_batch_size=len(policy) // cells.minibatches,
        mini_batch_size=len(layout.order) // cells.minibatches,
        epochs=1,
        dataloader_kwargs={"shuffle": False},
        temperature=TEMPERATURE,
        calculate_entropy=False,
        compute_loss=True,
        micro_batch_size_per_gpu=case.get("micro", 2),
        use_remove_padding=case.get("packed", False),
        use_dynamic_bsz=case.get("dynamic", False),
        max_token_len_per_gpu=32,
    )
    return data


def make_loss(case):
    own = case.get("objective", {})
    mode = OWN_SURROGATE if "kind" in own.get("surrogate", {}) else "vanilla"
    actor = make_actor(
        loss_agg_mode=case.get("aggregation", "token-mean"),
        policy_loss=PolicyLossConfig(loss_mode=mode),
    )
    name = case["divergence"]
    if name == "verl":
        return lambda model_output, data, dp_group=None: ppo_loss(
            actor, model_output, data, dp_group
        )
    anchors = {"rehearsal": {"divergence": DEFINITION.get(name, name), "weight": case["eta"]}}
    settings = ObjectiveSettings(**{"anchors": anchors, **own})
    loss = WorkerLoss(actor=actor, settings=settings)
    return copy.copy(loss)  # made anew from settings, as it comes to verl's workers


def held_bytes(engine):
    """Bytes of this rank's shards of the weights and of the optimizer's states."""
    weights = [p.to_local() for p in engine.module.parameters()]
    states = [v.to_local() for s in engine.optimizer.state.values() for v in s.values() if v.dim()]
    return {
        name: sum(t.nbytes for t in ts)
        for name, ts in (("weights", weights), ("optimizer", states))
    }


def main(directory):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    cases = json.loads((directory / "cases.json").read_text())
    build_tokenizer().save_pretrained(directory / f"model{rank}")
    from engines.verl.rows import make_model  # noqa: PLC0415

    make_model().save_pretrained(directory / f"model{rank}")
    worker = make_worker(directory / f"model{rank}")
    worker.reset()
    found = {}
    for name, case in cases.items():
        worker.set_loss_fn(make_loss(case))
        output = worker.train_mini_batch(batch_of_rank(case, rank, ranks))
        found[name] = {
            k: [float(v) for v in values]
            for k, values in output["metrics"].items()
            if k in ("loss", "grad_norm") or k.startswith("dph/")
        }
    found["held"] = held_bytes(worker.engine)
    if rank == 0:
        (directory / "found.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

#!/usr/bin/env bash
# Pre-sample (unless the pool is there) and train, on one node or on the Ray cluster that
# RAY_ADDRESS names. The paper-*.sh beside this file set the variables; every argument goes to
# training as one more of verl's overrides. DPH_DRY_RUN=1 prints the commands instead.
set -euo pipefail

: "${MODEL:?directory of the initial policy, on a path that every node has}"
: "${TRAIN:?parquet of problems: dph convert --to verl --input problems.jsonl --out train.parquet}"
: "${VAL:=$TRAIN}"
: "${RUN:?directory of this run, on a path that every node has}"
: "${VERIFIER:?sql or math}"
: "${DATABASES:=null}"
: "${RATE:?learning rate}"
: "${PROMPT:=2048}" "${ANSWER:=4096}"
: "${DIVERGENCE:=forward_kl}" "${ETA:=0.01}"
: "${NODES:=1}" "${GPUS:=8}" "${TENSOR:=1}" "${OFFLOAD:=false}"

both=(
  data.train_files="$TRAIN" data.val_files="$VAL" data.train_batch_size=128
  data.max_prompt_length="$PROMPT" data.max_response_length="$ANSWER"
  actor_rollout_ref.model.path="$MODEL"
  actor_rollout_ref.model.enable_gradient_checkpointing=true
  actor_rollout_ref.model.use_remove_padding=true
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.use_dynamic_bsz=true
  actor_rollout_ref.actor.ppo_mini_batch_size=64
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$((2 * (PROMPT + ANSWER)))
  actor_rollout_ref.actor.fsdp_config.param_offload="$OFFLOAD"
  actor_rollout_ref.actor.fsdp_config.optimizer_offload="$OFFLOAD"
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.tensor_model_parallel_size="$TENSOR"
  actor_rollout_ref.rollout.temperature=1.0
  actor_rollout_ref.rollout.top_p=0.95
  actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true
  actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=$((4 * (PROMPT + ANSWER)))
  trainer.nnodes="$NODES" trainer.n_gpus_per_node="$GPUS"
  trainer.default_local_dir="$RUN/checkpoints" hydra.run.dir="$RUN/hydra"
  dph.pool="$RUN/pool" dph.verifier="$VERIFIER" dph.databases="$DATABASES"
  dph.verifier_workers=2
)

run() {
  if [[ -n "${DPH_DRY_RUN:-}" ]]; then printf '%s\n' "$@"; else "$@"; fi
}

if [[ ! -f "$RUN/pool/manifest.json" ]]; then
  run python -m dph.engines.verl.presample "${both[@]}" dph.samples=8 dph.threshold=8
fi

# normalisation=rows is the denominator of the paper's code, so that ETA is the paper's too.
run python -m dph.engines.verl.train "${both[@]}" \
  dph.divergence="$DIVERGENCE" dph.eta="$ETA" dph.normalisation=rows dph.rehearsal_per_step=256 \
  actor_rollout_ref.rollout.n=16 \
  actor_rollout_ref.actor.optim.lr="$RATE" \
  actor_rollout_ref.actor.clip_ratio_low=0.2 actor_rollout_ref.actor.clip_ratio_high=0.28 \
  trainer.save_freq=20 trainer.test_freq=-1 trainer.val_before_train=false \
  trainer.total_epochs=5 "$@"

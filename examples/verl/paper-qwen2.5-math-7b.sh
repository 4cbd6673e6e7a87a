#!/usr/bin/env bash
# Mathematics with Qwen2.5-Math-7B, as in arXiv:2509.07430 (Table 7), on verl. Not run here.
# What the paper says and what is assumed: recipes/paper-qwen2.5-math-7b.toml. Jensen-Shannon:
# DIVERGENCE=jensen_shannon ETA=0.2.
set -euo pipefail
export MODEL="${MODEL:-models/Qwen2.5-Math-7B}" RUN="${RUN:-runs/paper-qwen2.5-math-7b}"
export TRAIN="${TRAIN:-data/math_train.parquet}"
export VERIFIER=math RATE=2e-7 PROMPT=1024 ANSWER=3072
exec "$(dirname "$0")/run.sh" "$@"

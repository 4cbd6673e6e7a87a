#!/usr/bin/env bash
# Mathematics with Llama-3.1-8B, as in arXiv:2509.07430 (Table 7), on verl. Not run here.
# What the paper says and what is assumed: recipes/paper-llama-3.1-8b-math.toml. Jensen-Shannon:
# DIVERGENCE=jensen_shannon ETA=0.2.
set -euo pipefail
export MODEL="${MODEL:-models/Llama-3.1-8B-Instruct}" RUN="${RUN:-runs/paper-llama-3.1-8b-math}"
export TRAIN="${TRAIN:-data/math_train.parquet}"
export VERIFIER=math RATE=2e-7 PROMPT=1024 ANSWER=4096
exec "$(dirname "$0")/run.sh" "$@"

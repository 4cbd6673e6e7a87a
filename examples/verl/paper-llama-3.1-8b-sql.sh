#!/usr/bin/env bash
# Text-to-SQL with Llama-3.1-8B, as in arXiv:2509.07430 (Table 6), on verl. Not run here.
# What the paper says and what is assumed: recipes/paper-llama-3.1-8b-sql.toml. Jensen-Shannon:
# DIVERGENCE=jensen_shannon ETA=0.2.
set -euo pipefail
export MODEL="${MODEL:-models/Llama-3.1-8B-Instruct}" RUN="${RUN:-runs/paper-llama-3.1-8b-sql}"
export TRAIN="${TRAIN:-data/bird_train.parquet}" DATABASES="${DATABASES:-data/bird/databases}"
export VERIFIER=sql RATE=1e-6 PROMPT=8192 ANSWER=4096
exec "$(dirname "$0")/run.sh" "$@"

#!/usr/bin/env bash
# Text-to-SQL with OmniSQL-32B, as in arXiv:2509.07430 (Table 6), on verl. Not run here.
# What the paper says and what is assumed: recipes/paper-omnisql-32b-sql.toml. Jensen-Shannon:
# DIVERGENCE=jensen_shannon ETA=0.2.
set -euo pipefail
export MODEL="${MODEL:-models/OmniSQL-32B}" RUN="${RUN:-runs/paper-omnisql-32b-sql}"
export TRAIN="${TRAIN:-data/bird_train.parquet}" DATABASES="${DATABASES:-data/bird/databases}"
export VERIFIER=sql RATE=1e-6 PROMPT=8192 ANSWER=4096
export NODES="${NODES:-4}" TENSOR=4 OFFLOAD=true
exec "$(dirname "$0")/run.sh" "$@"

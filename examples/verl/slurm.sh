#!/usr/bin/env bash
#SBATCH --job-name=dph
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --exclusive
# A Ray cluster for the length of a Slurm job, and one of the scripts beside this file on its head:
#   sbatch examples/verl/slurm.sh examples/verl/paper-omnisql-32b-sql.sh
# Not run here. Everything lies on a file system that all nodes share, the environment too.
set -euo pipefail

script="${1:?a script to run on the head node}"
shift
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head="${nodes[0]}"
address="$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | awk '{print $1}')"
port="${RAY_PORT:-6379}"

start() { # node, ray's arguments: --block keeps the daemon alive as long as the job step
  srun --nodes=1 --ntasks=1 --overlap -w "$1" \
    ray start "${@:2}" --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_PER_NODE:-8}" \
    --disable-usage-stats --block &
}

start "$head" --head --node-ip-address="$address" --port="$port"
sleep 15
for node in "${nodes[@]:1}"; do start "$node" --address="$address:$port"; done
sleep 15

NODES="$SLURM_JOB_NUM_NODES" GPUS="${SLURM_GPUS_PER_NODE:-8}" \
  srun --nodes=1 --ntasks=1 --overlap -w "$head" \
  env RAY_ADDRESS="$address:$port" bash "$script" "$@"

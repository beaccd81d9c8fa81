#!/usr/bin/env bash
# Shows rollouts behind Triton on the GPU node: an equal revision takes over, and one whose engine runs without CUDA
# graphs is rolled back. Users ask through a gateway meanwhile, and the operator is killed on the way.
#
# It needs the parts of both servers (SLIPWAY_GPU_SERVERS="vllm triton"), for the gateway comes with vLLM's. Both
# revisions need a GPU: one GPU is offered twice by start.sh with SLIPWAY_GPU_SHARES=2 and node. The slower engine is
# built once the first revision's pod is gone, for its builder needs a GPU too.
#
#   SLIPWAY_RUNS_PER_SECOND=N    users' runs a second (default: 20)
#   SLIPWAY_VERDICT_SECONDS=N    how long a canary with traffic is watched (default: 600)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/rollout.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/rollout.sh"

export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-20} SLIPWAY_VERDICT_SECONDS=${SLIPWAY_VERDICT_SECONDS:-600}

deploy_agent() {
  start_anew
  deploy gpu-triton-rollout.yaml facts-agent
}

apply_changed() { gpu_manifest gpu-triton-rollout.yaml "$1" | in_namespace apply -f -; }

equal_revision() { promoted_or_by_hand apply_changed "$OTHER_RECORDING"; }

# Each step is started kernel by kernel: another engine, which is built first.
slow_revision() { rolled_back apply_changed "$OTHER_RECORDING;"'s|options: {|options: {cudaGraphs: "0", |'; }

show_two_rollouts

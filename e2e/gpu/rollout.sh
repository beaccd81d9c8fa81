#!/usr/bin/env bash
# Shows rollouts on the GPU node: an equal revision is promoted, and one whose vLLM runs without CUDA graphs is rolled
# back. Users ask through a gateway meanwhile, and the operator is killed on the way.
#
# Both revisions need a GPU: one GPU is offered twice by start.sh with SLIPWAY_GPU_SHARES=2 and node.
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/rollout.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/rollout.sh"

# Users' runs a second.
export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-20}

deploy_agent() {
  start_anew
  deploy gpu-rollout.yaml facts-agent
}

# Other requests of the sidecar's container change the plan: no campaign, and nothing that users could notice.
readonly EQUAL='s|^  serving:|  serving:\n    agentResources: {requests: {cpu: 110m}}|'

apply_changed() { gpu_manifest gpu-rollout.yaml "$1" | in_namespace apply -f -; }

equal_revision() { promoted apply_changed "$EQUAL"; }

# The same engine without CUDA graphs: another artifact, which is scored and measured before its pods start.
slow_revision() {
  rolled_back apply_changed "$EQUAL;"'s|^      maxSeqLen:|      extraArgs: ["enforce_eager=true"]\n      maxSeqLen:|'
}

show_two_rollouts

#!/usr/bin/env bash
# Shows one agent's whole life on the GPU node, from one manifest: vLLM's engines are scored and measured. One is
# chosen, serves, and is asked 200 held-out questions. An equal revision is promoted. One whose preflight refuses the
# GPU gets no traffic, and one with a smaller batch is rolled back. Users ask through a gateway meanwhile, and the
# operator is killed on the way.
#
# Two pods have a GPU at once: one GPU is offered twice by start.sh with SLIPWAY_GPU_SHARES=2 and node.
#
#   SLIPWAY_RUNS_PER_SECOND=N    users' runs a second (default: 20, of which a batch of 2 answers some 13)
#   SLIPWAY_VERDICT_SECONDS=N    how long a canary with traffic is watched (default: 600)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/rollout.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/rollout.sh"

export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-20} SLIPWAY_VERDICT_SECONDS=${SLIPWAY_VERDICT_SECONDS:-600}
readonly REPORT=$LOGS/facts-agent.html

apply_changed() { gpu_manifest gpu-loop.yaml "${1:-}" | in_namespace apply -f -; }

deploy_agent() {
  start_anew
  apply_changed
  run_slipway wait facts-agent --timeout 25m
  run_slipway status facts-agent
}

equal_revision() { promoted_or_by_hand apply_changed "$OTHER_RECORDING"; }

# More free memory than any GPU has: the driver keeps some for itself.
readonly OCCUPIED='s|minFreeMemory: 40%|minFreeMemory: 100%|'

refused_revision() {
  local serving
  serving=$(status_of rollout.stable)
  apply_changed "$OTHER_RECORDING;$OCCUPIED"
  in_namespace wait agd/facts-agent --timeout=5m \
    --for='jsonpath={.status.conditions[?(@.type=="Reconciling")].reason}=PreflightFailed'
  status_of 'conditions[?(@.type=="Reconciling")].message'
  printf '\n'
  [[ $(status_of rollout.stable) == "$serving" ]]
}

# Somebody who knows better: the batch is given by hand, and nothing is scored or measured. A pod takes more runs than it
# answers at once: who is refused would count as failed.
readonly BY_HAND='/^  profiling:/,/^  agent:/{/^  agent:/!d};/^    throughput:/d;/^    optimizeFor:/d;/^    quality:/d
s|precision: .*|precision: [BF16]|;s|maxBatchSize: .*|maxBatchSize: [2]|;s|concurrency: .*|concurrency: [256]|'
small_batch() { rolled_back apply_changed "$OTHER_RECORDING;$BY_HAND"; }

write_report() { run_slipway report facts-agent --output "$REPORT"; }

main() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd facts-agent"
  prepare_namespace
  open_step "deploy the agent" "$look" deploy_agent
  step "report" "$(kubectl_line) -n $NAMESPACE get profiles" write_report
  open_step "ask the agent" "$(kubectl_line) -n $NAMESPACE logs deploy/facts" ask_agent
  open_step "held-out questions" "$look" ask_unseen
  step "start clients" "$(kubectl_line) -n $NAMESPACE describe pod clients" start_clients
  open_step "an equal revision" "$look" equal_revision
  open_step "a revision that its preflight refuses" "$look" refused_revision
  open_step "a smaller batch" "$look" small_batch
  open_step "the GPU" "$(kubectl_line) -n $NAMESPACE get pods" show_gpu
  open_step "count requests" "$(kubectl_line) -n $NAMESPACE logs clients" count_requests
  tell_durations "$started"
}

main

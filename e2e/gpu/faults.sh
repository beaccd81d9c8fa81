#!/usr/bin/env bash
# Rehearses faults of GPUs in the middle of rollouts, on a node without a GPU (lib/rehearsal.sh). A canary is slow because
# heat slows its GPU down: it is held, and its node is named. Once the GPU is well it is promoted. A canary that is as
# slow on a GPU that is well is rolled back. One whose GPU breaks is held. Users ask through a gateway meanwhile.
#
#   SLIPWAY_RUNS_PER_SECOND=N    users' runs a second (default: 20)
#   SLIPWAY_HELD_SECONDS=N       how long a canary on a hot GPU is looked at (default: 240)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/rollout.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/rollout.sh"

export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-20}
readonly HELD_SECONDS=${SLIPWAY_HELD_SECONDS:-240}

# As NVIDIA's stand-in reads them.
readonly HOT='all: {clocks_throttle_reasons: {gpu_idle: false, hw_thermal_slowdown: true}, clocks: {sm_current: 660}}'
readonly BROKEN='all: {failure: {mode: ecc_uncorrectable, xid: {code: 79}}}'
# Seconds of a token.
readonly WELL=0.002 SLOW=0.006

# apply_watched CPU: each request of the sidecar is a revision, and equal to the one before.
apply_watched() {
  gpu_manifest gpu-rollout.yaml \
    "s|^  serving:|  serving:\n    preflight: {watch: true}\n    agentResources: {requests: {cpu: $1}}|" |
    in_namespace apply -f -
}

all_are_well() {
  local gpu
  reset_gpus
  for gpu in "$REHEARSED_GPUS"/GPU-*; do
    printf '%s\n' "$WELL" >"$gpu/token_seconds"
  done
}

deploy_agent() {
  start_anew
  all_are_well
  apply_watched 60m
  run_slipway wait facts-agent --timeout 10m
  run_slipway status facts-agent
}

# canary_of CPU: applies a revision and waits for its first traffic; sets CANARY_GPU.
canary_of() {
  local pods pod
  apply_watched "$1"
  in_namespace wait agd/facts-agent --for='jsonpath={.status.rollout.weight}=20' --timeout=5m
  pods=$(in_namespace get pods --output name)
  pod=$(grep --max-count 1 "^pod/facts-agent-$(status_of rollout.canary)-" <<<"$pods")
  CANARY_GPU=$(gpu_of "$pod")
  printf '%s has %s\n' "$pod" "${CANARY_GPU##*/}"
}

write_to_gpu() { printf '%s\n' "$2" >"$CANARY_GPU/.partial" && mv "$CANARY_GPU/.partial" "$CANARY_GPU/$1"; }

reconciling() { status_of 'conditions[?(@.type=="Reconciling")].message'; }

held_by_node() {
  in_namespace wait agd/facts-agent --for='jsonpath={.status.rollout.reason}=NodeAtFault' --timeout=3m
  reconciling
  printf '\n'
}

# The canary keeps its share for so long.
stays_held() {
  local canary=$1 until=$((SECONDS + $2))
  while ((SECONDS < until)); do
    [[ $(status_of rollout.canary) == "$canary" && $(status_of rollout.weight) == 20 ]] ||
      { printf 'the canary is %s at %s %%\n' "$(status_of rollout.canary)" "$(status_of rollout.weight)" && return 1; }
    sleep 5
  done
  printf 'held at 20 %% for %d s\n' "$2"
}

hot_gpu() {
  local canary
  canary_of 61m
  canary=$(status_of rollout.canary)
  write_to_gpu token_seconds "$SLOW"
  write_to_gpu overrides.yaml "$HOT"
  held_by_node
  stays_held "$canary" "$HELD_SECONDS"
  all_are_well
  run_slipway rollout facts-agent --watch
  [[ $(status_of rollout.stable) == "$canary" ]]
}

slow_but_well() {
  local serving
  serving=$(status_of rollout.stable)
  canary_of 62m
  write_to_gpu token_seconds "$SLOW"
  run_slipway rollout facts-agent --watch
  all_are_well
  [[ $(status_of stage) == RolledBack && $(status_of rollout.stable) == "$serving" ]]
}

broken_gpu() {
  canary_of 63m
  write_to_gpu overrides.yaml "$BROKEN"
  held_by_node
  stays_held "$(status_of rollout.canary)" 30
  all_are_well
}

main() {
  local started=$SECONDS look
  is_rehearsal || die "it needs a node without a GPU: gather the parts with SLIPWAY_GPU_SERVERS=stand-in"
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd facts-agent"
  prepare_namespace
  open_step "deploy the agent" "$look" deploy_agent
  step "start clients" "$(kubectl_line) -n $NAMESPACE describe pod clients" start_clients
  open_step "a canary on a hot GPU" "$look" hot_gpu
  open_step "a slow canary on a GPU that is well" "$look" slow_but_well
  open_step "a canary whose GPU breaks" "$look" broken_gpu
  open_step "count requests" "$(kubectl_line) -n $NAMESPACE logs clients" count_requests
  tell_durations "$started"
}

main

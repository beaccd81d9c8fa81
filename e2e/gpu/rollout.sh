#!/usr/bin/env bash
# Shows rollouts on the GPU node: an equal revision is promoted, and one whose vLLM runs without CUDA graphs is rolled
# back. Users ask through a gateway meanwhile, and the operator is killed on the way.
#
# Both revisions need a GPU: start.sh is called with SLIPWAY_GPU_SHARES=2 where the node has one.
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# shellcheck source=../demo/agent.sh
source "$REPOSITORY/e2e/demo/agent.sh"

# The users that teach the look-up service what will be asked.
export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-20}

status_of() { in_namespace get agd facts-agent --output "jsonpath={.status.$1}"; }

deploy_agent() {
  gpu_manifest gpu-rollout.yaml | in_namespace apply -f -
  run_slipway wait facts-agent --timeout 20m
  run_slipway status facts-agent
}

# The look-up service learns what the recorded questions ask for; then the same questions come through the gateway.
start_clients() {
  send_traffic
  in_namespace delete pod clients --ignore-not-found --now
  manifest gpu-clients.yaml | in_namespace apply -f -
  in_namespace wait --for=condition=Ready --timeout=1m pod/clients
  sleep 20
}

kill_operator() {
  run_kubectl --namespace "$SYSTEM_NAMESPACE" delete pod --selector app.kubernetes.io/name=slipway-operator --grace-period 0 \
    --force
}

# Every line with a change of weight or verdict, until the rollout is over.
watch_rollout() {
  local serving=$1 begun=$SECONDS
  in_namespace wait agd/facts-agent --for='jsonpath={.status.rollout.weight}=20' --timeout=12m
  printf 'the canary gets traffic %d s after the change\n' "$(seconds_since "$begun")"
  begun=$SECONDS
  kill_operator
  run_slipway rollout facts-agent --watch
  printf 'over %d s after its first traffic; %s served before, %s serves now\n' \
    "$(seconds_since "$begun")" "$serving" "$(status_of rollout.stable)"
}

# Other requests of the sidecar's container change the plan: no campaign, and nothing that users could notice.
readonly EQUAL='s|^  serving:|  serving:\n    agentResources: {requests: {cpu: 110m}}|'

equal_revision() {
  local serving
  serving=$(status_of rollout.stable)
  gpu_manifest gpu-rollout.yaml "$EQUAL" | in_namespace apply -f -
  watch_rollout "$serving"
  [[ $(status_of rollout.stable) != "$serving" ]]
}

# The same engine without CUDA graphs: another artifact, which is scored and measured before its pods start.
slow_revision() {
  local serving
  serving=$(status_of rollout.stable)
  gpu_manifest gpu-rollout.yaml "$EQUAL;"'s|^      maxSeqLen:|      extraArgs: ["enforce_eager=true"]\n      maxSeqLen:|' |
    in_namespace apply -f -
  watch_rollout "$serving"
  [[ $(status_of stage) == RolledBack && $(status_of rollout.stable) == "$serving" ]]
}

main() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd facts-agent"
  step "gateway" "$(kubectl_line) -n gateway describe pods" "$REPOSITORY/e2e/tools/traefik/install.sh" --name "$CLUSTER"
  step "namespace" "$(kubectl_line) get namespace $NAMESPACE" create_namespace
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  open_step "deploy the agent" "$look" deploy_agent
  step "start clients" "$(kubectl_line) -n $NAMESPACE describe pod clients" start_clients
  open_step "an equal revision" "$look" equal_revision
  open_step "a slower revision" "$look" slow_revision
  open_step "count requests" "$(kubectl_line) -n $NAMESPACE logs clients" count_requests
  printf '\n%s\n%-34s %5d s\n' "$(printf '%s\n' "${STEPS[@]}")" "all" "$(seconds_since "$started")"
}

main

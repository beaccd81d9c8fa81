# shellcheck shell=bash
# Users who never pause, and rollouts of their agent. Sourced by the scripts that show them.
#
#   SLIPWAY_VERDICT_SECONDS=N    how long a canary with traffic is watched (default: 1800)

# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# shellcheck source=../../demo/agent.sh
source "$REPOSITORY/e2e/demo/agent.sh"
# shellcheck source=keep.sh
source "$(dirname "${BASH_SOURCE[0]}")/keep.sh"

# A gateway, and what the agent asks.
prepare_namespace() {
  step "gateway" "$(kubectl_line) -n gateway describe pods" "$REPOSITORY/e2e/tools/traefik/install.sh" --name "$CLUSTER"
  step "namespace" "$(kubectl_line) get namespace $NAMESPACE" create_namespace
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  keep_what_pods_leave
}

# What pods remember of runs, as a change of a manifest: the pods are others, and nothing that was measured is.
readonly OTHER_RECORDING='s|^  serving:|  serving:\n    recording: {level: Texts}|'

status_of() { in_namespace get agd facts-agent --output "jsonpath={.status.$1}"; }

# Without the agent and the users of an earlier call: an edit of that agent would be a canary.
start_anew() {
  in_namespace delete pod clients --ignore-not-found --now
  in_namespace delete agd facts-agent --ignore-not-found --timeout 2m
  reset_gpus
}

# The look-up service learns what the recorded questions ask for; then the same questions come through the gateway.
start_clients() {
  send_traffic
  in_namespace delete pod clients --ignore-not-found --now
  manifest gpu-clients.yaml | sed "s/--rate=[0-9]*/--rate=$SLIPWAY_RUNS_PER_SECOND/" | in_namespace apply -f -
  in_namespace wait --for=condition=Ready --timeout=1m pod/clients
  sleep 20
}

kill_operator() {
  run_kubectl --namespace "$SYSTEM_NAMESPACE" delete pod --selector app.kubernetes.io/name=slipway-operator --grace-period 0 \
    --force
}

watch_verdicts() {
  timeout "${SLIPWAY_VERDICT_SECONDS:-1800}" "${SLIPWAY[@]}" --kubeconfig "$KUBECONFIG_FILE" --namespace "$NAMESPACE" \
    rollout facts-agent --watch
}

# Every line with a change of weight or verdict, until the rollout is over or has had its time.
watch_rollout() {
  local serving=$1 begun=$SECONDS
  in_namespace wait agd/facts-agent --for='jsonpath={.status.rollout.weight}=20' --timeout=12m
  printf 'the canary gets traffic %d s after the change\n' "$(seconds_since "$begun")"
  begun=$SECONDS
  kill_operator
  watch_verdicts || printf 'no verdict\n'
  printf 'over %d s after its first traffic; %s served before, %s serves now\n' \
    "$(seconds_since "$begun")" "$serving" "$(status_of rollout.stable)"
}

# promoted COMMAND...: the revision that the command applies takes all traffic.
promoted() {
  local serving
  serving=$(status_of rollout.stable)
  "$@"
  watch_rollout "$serving"
  [[ $(status_of rollout.stable) != "$serving" ]]
}

# rolled_back COMMAND...: the revision before serves on.
rolled_back() {
  local serving
  serving=$(status_of rollout.stable)
  "$@"
  watch_rollout "$serving"
  [[ $(status_of stage) == RolledBack && $(status_of rollout.stable) == "$serving" ]]
}

# promoted_or_by_hand COMMAND...: as promoted. Two servers that take turns on one GPU may take too long for a verdict;
# then a person promotes the canary.
promoted_or_by_hand() {
  local serving
  serving=$(status_of rollout.stable)
  "$@"
  watch_rollout "$serving"
  if [[ $(status_of rollout.stable) == "$serving" && $(status_of stage) != RolledBack ]]; then
    printf 'promoted by hand\n'
    run_slipway promote facts-agent
    watch_verdicts
  fi
  [[ $(status_of rollout.stable) != "$serving" ]]
}

# What the checks of the pods that run said of the GPU, what was counted since, and the agent's events.
show_gpu() {
  in_namespace get pods --selector slipway.dev/agent-deployment=facts-agent \
    --field-selector status.phase=Running --output \
    'jsonpath={range .items[*]}{.metadata.name}{" "}{.status.initContainerStatuses[?(@.name=="preflight")].state.terminated.message}{"\n"}{end}'
  run_slipway status facts-agent
  in_namespace get events --sort-by .eventTime --output \
    'jsonpath={range .items[?(@.involvedObject.kind=="AgentDeployment")]}{.eventTime}{" "}{.reason}{" "}{.message}{"\n"}{end}'
}

# Two rollouts of one agent, by the script's own deploy_agent, equal_revision and slow_revision.
show_two_rollouts() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd facts-agent"
  prepare_namespace
  open_step "deploy the agent" "$look" deploy_agent
  step "start clients" "$(kubectl_line) -n $NAMESPACE describe pod clients" start_clients
  open_step "an equal revision" "$look" equal_revision
  open_step "a slower revision" "$look" slow_revision
  open_step "the GPU" "$(kubectl_line) -n $NAMESPACE get pods" show_gpu
  open_step "count requests" "$(kubectl_line) -n $NAMESPACE logs clients" count_requests
  tell_durations "$started"
}

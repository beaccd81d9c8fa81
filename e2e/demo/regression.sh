#!/usr/bin/env bash
# What a regression comes to: a revision that is three times as slow is tried with half of the traffic, found out and rolled back.
# `make demo-regression` calls it; it uses the cluster of `make demo` or starts it, and `make demo-down` removes everything.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=steps.sh
source "$here/steps.sh"
# shellcheck source=common.sh
source "$here/common.sh"
# shellcheck source=operator.sh
source "$here/operator.sh"

readonly AGENT=waiter
IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-triton slipway-lognormal-builder
  slipway-traefik)

# What simulated rollouts like this one came to, as `make bench-judge` recorded it: shares, with the median minute in brackets.
show_simulation() {
  awk -F ' *[|] *' '$2 ~ /^the demo.s regression/ {
    printf "1,000 simulated rollouts of %s: rolled back %s, promoted %s\n", substr($2, index($2, ":") + 2), $4, $5
  }' docs/bench/judge.md
}

start_gateway() { e2e/tools/traefik/install.sh --name "$CLUSTER"; }

start_agent() {
  manifest servers.yaml | in_namespace apply -f -
  in_namespace rollout status deployment/models --timeout 2m
  manifest regression.yaml | in_namespace apply -f -
  run_slipway wait "$AGENT" --timeout 5m
}

start_clients() {
  in_namespace delete pod clients --ignore-not-found --now
  manifest clients.yaml | in_namespace apply -f -
  in_namespace wait --for=condition=Ready --timeout=1m pod/clients
  # Stable's own pace must be known before another revision is held against it.
  sleep 20
}

# Ends with the rollback; how long that took is counted from the first traffic.
apply_regression() {
  local begun
  printf 'the same manifest with medianMilliseconds 600 instead of 200\n'
  manifest regression.yaml | sed 's/medianMilliseconds: "200"/medianMilliseconds: "600"/' | in_namespace apply -f -
  in_namespace wait "agd/$AGENT" --for='jsonpath={.status.rollout.weight}=50' --timeout=5m
  begun=$SECONDS
  run_slipway rollout "$AGENT" --watch
  in_namespace wait "agd/$AGENT" --for='jsonpath={.status.stage}=RolledBack' --timeout=1m
  printf '\nrolled back %d s after the slow revision got half of the traffic\n' "$(seconds_since "$begun")"
}

main() {
  local started=$SECONDS
  [[ -z ${DEMO_KUBECONFIG:-} ]] || fail "cluster" /dev/null \
    "this demo brings a gateway of its own: call it without DEMO_KUBECONFIG, for a cluster of its own"
  say_plan 'how a slow revision is detected and rolled back'
  start_operator "${IMAGES[@]}"
  show_simulation
  step "start the gateway" "$(kubectl_line) -n gateway describe pods" start_gateway
  open_step "deploy the agent" "$(kubectl_line) -n $NAMESPACE describe agd $AGENT" start_agent
  step "start clients" "$(kubectl_line) -n $NAMESPACE describe pod clients" start_clients
  open_step "apply the regression" "$(kubectl_line) -n $NAMESPACE describe agd $AGENT" apply_regression
  open_step "count requests" "$(kubectl_line) -n $NAMESPACE logs clients" count_requests
  tell_durations "$started"
}

main

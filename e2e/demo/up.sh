#!/usr/bin/env bash
# The demo: from a bare machine to an agent that answers. `make demo` calls it; a second call uses what is there.
#
#   DEMO_KUBECONFIG=FILE   an existing cluster instead of one of its own; the ambient KUBECONFIG is never used
#   DEMO_CONTEXT=NAME      its context (default: the file's current one)
#   DEMO_REGISTRY=PREFIX   where its nodes pull the images from, as in registry.example/team
#   DEMO_NAMESPACE=NAME    where the agent goes, and on an existing cluster the operator too (default: slipway-demo)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=steps.sh
source "$here/steps.sh"
# shellcheck source=common.sh
source "$here/common.sh"
# shellcheck source=operator.sh
source "$here/operator.sh"

readonly REPORT=$LOGS/facts-agent.html DRAWN=$LOGS/question.json
IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-triton slipway-model-builder)

# The traffic to measure with, and the questions that engines are judged by.
give_workload() {
  run_kubectl --namespace "$NAMESPACE" create configmap demo-workload --from-file e2e/manifests/demo/workload \
    --dry-run=client --output yaml | run_kubectl --namespace "$NAMESPACE" apply --server-side -f -
}

start_servers() {
  give_workload
  manifest servers.yaml | run_kubectl --namespace "$NAMESPACE" apply -f -
  run_kubectl --namespace "$NAMESPACE" rollout status deployment/models deployment/facts --timeout 2m
}

apply_agent() {
  manifest agent.yaml | run_kubectl --namespace "$NAMESPACE" apply -f -
  run_slipway wait facts-agent --timeout 10m
}

# A question that the model has never seen: names and numbers are drawn anew. The look-up service learns the numbers.
ask_agent() {
  local seed drawn
  seed=$(date +%s)
  drawn=$(python3 e2e/model/questions.py --seed "$seed")
  printf '%s\n' "$drawn" >"$DRAWN"
  teach <<<"$drawn"
  run_slipway ask facts-agent "$(drawn question)"
  printf 'Expected answer: %s\n' \
    "$(drawn answer)"
}

# Of what was drawn: a field, or with "lookup" the first fact as "ENTITY PROPERTY VALUE".
drawn() {
  python3 -c 'import json, sys
drawn = json.load(open(sys.argv[1]))
fact = drawn["lookups"][0]
print("%s %s %s" % (fact["entity"], fact["property"], fact["value"]) if sys.argv[2] == "lookup" else drawn[sys.argv[2]])
' "$DRAWN" "$1"
}

# `kubectl replace --raw` says no content type, hence the proxy.
teach() {
  local entity property value proxy address
  # Without the exec it would outlive the shell that is killed below, and hold the log of this step open.
  coproc PROXY {
    exec "$KUBECTL" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} proxy --port 0
  }
  proxy=$PROXY_PID
  read -r -t 20 -u "${PROXY[0]}" address
  python3 -c 'import json, sys
for fact in json.load(sys.stdin)["lookups"]: print(fact["entity"], fact["property"], fact["value"])' |
    while read -r entity property value; do
      curl --silent --show-error --fail --request PUT --json "{\"value\": $value}" \
        "http://${address##* }/api/v1/namespaces/$NAMESPACE/services/facts:80/proxy/facts/$entity/$property"
    done
  kill "$proxy"
  wait "$proxy" || true
}

# Users, as many as spec.slo.throughput speaks of, so that there is something to observe beside what was predicted.
send_traffic() {
  run_kubectl --namespace "$NAMESPACE" delete job traffic --ignore-not-found --cascade=foreground
  manifest traffic.yaml | run_kubectl --namespace "$NAMESPACE" apply -f -
  run_kubectl --namespace "$NAMESPACE" wait --for='jsonpath={.status.ready}=1' --timeout=1m job/traffic
  run_kubectl --namespace "$NAMESPACE" logs --follow job/traffic
  run_kubectl --namespace "$NAMESPACE" wait --for=condition=Complete --timeout=1m job/traffic
}

write_report() { run_slipway report facts-agent --output "$REPORT"; }

# Evidence is counted in windows of ten seconds; the last one must have ended.
show_status() {
  sleep $((11 - $(date +%s) % 10))
  run_slipway status facts-agent
  printf '\n'
  run_kubectl --namespace "$NAMESPACE" get agd,engines,profiles
}

more_commands() {
  local entity property value
  read -r entity property value <<<"$(drawn lookup)"
  printf '\nLook further; first, in this shell:\n'
  exports
  printf 'then\n'
  printf '  kubectl slipway ask facts-agent "%s"\n' "$(drawn question)"
  printf '  kubectl slipway ask facts-agent "What is the product of 3 and the %s of %s?"      # of %s\n' "$property" "$entity" "$value"
  printf '  kubectl slipway status facts-agent\n  kubectl describe agd facts-agent\n  kubectl get jobs,pods,engines\n'
  printf '  kubectl get profiles -o yaml\n'
  if [[ -z ${DEMO_KUBECONFIG:-} ]]; then
    printf '  kubectl apply -f %q      # the same agent, other objectives: another campaign\n' "$PWD/e2e/manifests/demo/latency.yaml"
    printf '  kubectl slipway wait facts-agent\n'
  fi
  printf 'The report of the campaign, for a browser:\n  %s\n' "$REPORT"
  printf '  make demo-down\n'
}

main() {
  local started=$SECONDS
  say_plan 'an agent that it measured, chose and serves'
  start_operator "${IMAGES[@]}"
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  open_step "deploy the agent" "if nothing failed, run make demo again: it resumes; $(kubectl_line) -n $NAMESPACE describe agd facts-agent" apply_agent
  open_step "ask the agent" "$(kubectl_line) -n $NAMESPACE logs deploy/facts" ask_agent
  open_step "send traffic" "$(kubectl_line) -n $NAMESPACE describe job traffic" send_traffic
  open_step "status" "$(kubectl_line) -n $NAMESPACE get pods" show_status
  step "report" "$(kubectl_line) -n $NAMESPACE get profiles" write_report
  printf '\n%s\n%-34s %5d s\n' "$(printf '%s\n' "${STEPS[@]}")" "all" "$(seconds_since "$started")"
  more_commands
}

main

# shellcheck shell=bash
# What is done with the demo's agent: its servers, a question, users, its status.

readonly DRAWN=$LOGS/question.json

# shellcheck source=services.sh
source "$(dirname "${BASH_SOURCE[0]}")/services.sh"

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

# apply_agent [MANIFEST]
apply_agent() {
  manifest "${1:-agent.yaml}" | run_kubectl --namespace "$NAMESPACE" apply -f -
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

# teach <DRAWN: the look-up service learns what a question asks for.
teach() { with_services put_facts; }

put_facts() {
  local entity property value
  python3 -c 'import json, sys
for fact in json.load(sys.stdin)["lookups"]: print(fact["entity"], fact["property"], fact["value"])' |
    while read -r entity property value; do
      curl --silent --show-error --fail --request PUT --json "{\"value\": $value}" \
        "$SERVICES/facts:80/proxy/facts/$entity/$property" || exit 1
    done
}

# Questions that the model has never seen, of which nearly all must be answered exactly. The figures stay in a file.
#   SLIPWAY_QUESTIONS=N          how many (default: 200)
#   SLIPWAY_EXACT_PERCENT=N      how many of 100 must be right (default: 95)
#   ask_held_out [AGENT]
ask_held_out() { with_services ask_through "${1:-facts-agent}"; }

ask_through() {
  python3 e2e/demo/exact.py --services "$SERVICES" --agent "$1" --count "${SLIPWAY_QUESTIONS:-200}" \
    --at-least "${SLIPWAY_EXACT_PERCENT:-95}" --output "$LOGS/exact-$1.json"
}

# Users, as many as spec.slo.throughput speaks of, so that there is something to observe beside what was predicted.
#   SLIPWAY_RUNS_PER_SECOND=N    (default: 2, as in the demo's manifest)
send_traffic() {
  run_kubectl --namespace "$NAMESPACE" delete job traffic --ignore-not-found --cascade=foreground
  manifest traffic.yaml | sed "s/--per-second, \"2\"/--per-second, \"${SLIPWAY_RUNS_PER_SECOND:-2}\"/" |
    run_kubectl --namespace "$NAMESPACE" apply -f -
  run_kubectl --namespace "$NAMESPACE" wait --for='jsonpath={.status.ready}=1' --timeout=1m job/traffic
  run_kubectl --namespace "$NAMESPACE" logs --follow job/traffic
  run_kubectl --namespace "$NAMESPACE" wait --for=condition=Complete --timeout=1m job/traffic
}

# Evidence is counted in windows of ten seconds; the last one must have ended.
show_status() {
  sleep $((11 - $(date +%s) % 10))
  run_slipway status facts-agent
  printf '\n'
  run_kubectl --namespace "$NAMESPACE" get agd,engines,profiles
}

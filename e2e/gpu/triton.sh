#!/usr/bin/env bash
# Shows an agent behind Triton on the GPU node: engines that a builder of our own makes with torch, Model Analyzer's rows
# with what the GPU did, the choice, the agent's answers, and what is seen of the GPU while it serves.
#
#   SLIPWAY_GPU_PRECISIONS=LIST   of FP16, INT8, FP8 (default: "FP16, INT8, FP8")
#   SLIPWAY_GPU_OPTIONS=LIST      more options of the builder, such as 'weightOnly: "1"' or 'cudaGraphs: "0"'
#   SLIPWAY_GPU_UTILIZATION=N     the most utilization of a row that may be chosen, in percent (default: 70)
#   SLIPWAY_RUNS_PER_SECOND=N     users' runs a second (default: 10, for which the manifest's figures are predicted)
#   SLIPWAY_QUESTIONS=N           held-out questions that it is asked (default: 200)
#   SLIPWAY_EXACT_PERCENT=N       how many of 100 it must answer exactly (default: 95)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# shellcheck source=../demo/agent.sh
source "$REPOSITORY/e2e/demo/agent.sh"

export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-10}
readonly REPORT=$LOGS/facts-agent-triton.html
readonly PRECISIONS=${SLIPWAY_GPU_PRECISIONS:-FP16, INT8, FP8} OPTIONS=${SLIPWAY_GPU_OPTIONS:-}
readonly UTILIZATION=${SLIPWAY_GPU_UTILIZATION:-70}

triton_manifest() {
  gpu_manifest gpu-triton.yaml "s|precision: \[.*\]|precision: [$PRECISIONS]|
    s|options: {|options: {${OPTIONS:+$OPTIONS, }|
    s|figure: Utilization, max: 70|figure: Utilization, max: $UTILIZATION|"
}

deploy_agent() {
  triton_manifest | in_namespace apply -f -
  run_slipway wait facts-agent --timeout 25m
}

# Of each engine what it was built with, and how long it took.
show_engines() {
  in_namespace get engines --output \
    'jsonpath={range .items[*]}{.metadata.name}{" "}{.status.artifact}{"\n"}{end}'
}

# Every row with Triton's figures of the GPU; where none has them, Triton said nothing of it.
show_rows() {
  in_namespace get profiles --output json | python3 -c 'import json, sys
rows = [row for item in json.load(sys.stdin)["items"] for row in item.get("status", {}).get("measurements", [])]
for row in rows:
    gpu = row.get("gpu") or {}
    print(row["purpose"], row["engine"], row["configuration"], "at", row["level"], "%.2f/s" % (row["perKilosecond"] / 1000),
          "%s %% %s W %s MiB" % tuple(gpu.get(name, "-") for name in ("utilizationPercent", "powerWatts", "memoryMebibytes")),
          row["verdict"], row.get("reason", ""))
whole = [row for row in rows if len(row.get("gpu") or {}) == 3]
print(len(whole), "of", len(rows), "rows have utilization, power and memory")
sys.exit(not whole)'
  run_slipway explain facts-agent
}

# What the container with Triton is: its user, its GPU, the processes of model and watching program, and its log.
show_server() {
  local pod
  pod=$(serving_pod facts-agent)
  in_namespace get "$pod" --output \
    'jsonpath={range .spec.initContainers[?(@.name=="triton")]}{.command}{"\n"}{.resources}{"\n"}{end}'
  # shellcheck disable=SC2016 # the pod's shell expands it
  in_namespace exec "$pod" --container triton -- \
    sh -c 'id; grep "^CapEff\|^NoNewPrivs" /proc/self/status; ls /dev | grep nvidia
      for each in /proc/[0-9]*; do tr "\0" " " <"$each/cmdline" | cut -c1-160 && echo; done'
  in_namespace logs "$pod" --container triton | grep --ignore-case 'dcgm\|cuda\|gpu\|metric\|loaded\|warn\|error' |
    head -n 40 || true
}

# metrics_of POD PORT: through the API server.
metrics_of() { run_kubectl get --raw "/api/v1/namespaces/$NAMESPACE/pods/${1#pod/}:$2/proxy/metrics"; }

# What the checks said, what the watching program counted in the last window, which the traffic filled, and what Triton
# says of the same GPU.
show_watched() {
  local pod
  pod=$(serving_pod facts-agent)
  in_namespace get "$pod" --output \
    'jsonpath={.status.initContainerStatuses[?(@.name=="preflight")].state.terminated.message}'
  printf '\n'
  metrics_of "$pod" 9464 | grep '^slipway_gpu_'
  metrics_of "$pod" 8002 | grep '^nv_gpu_'
}

write_report() {
  run_slipway report facts-agent --output "$REPORT"
  grep --quiet '<th scope="col">GPU</th>' "$REPORT"
}

main() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd facts-agent"
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  open_step "deploy the agent" "$look" deploy_agent
  open_step "engines" "$(kubectl_line) -n $NAMESPACE get engines" show_engines
  open_step "rows" "$(kubectl_line) -n $NAMESPACE get profiles --output yaml" show_rows
  open_step "ask the agent" "$(kubectl_line) -n $NAMESPACE logs deploy/facts" ask_agent
  open_step "the server" "$(kubectl_line) -n $NAMESPACE get pods" show_server
  open_step "held-out questions" "$(kubectl_line) -n $NAMESPACE logs deploy/facts" ask_held_out
  open_step "send traffic" "$(kubectl_line) -n $NAMESPACE describe job traffic" send_traffic
  open_step "watched GPU" "$(kubectl_line) -n $NAMESPACE get pods" show_watched
  open_step "status" "$(kubectl_line) -n $NAMESPACE get pods" show_status
  step "report" "$(kubectl_line) -n $NAMESPACE get profiles" write_report
  tell_durations "$started"
  printf 'report: %s\n' "$REPORT"
}

main

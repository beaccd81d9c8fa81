#!/usr/bin/env bash
# Shows an agent on the GPU node: vLLM's own server is measured with its model and serves it, and it answers by calling
# tools.
#
#   SLIPWAY_GPU_MANIFEST=NAME    a manifest of e2e/manifests/demo (default: gpu.yaml)
#   SLIPWAY_RUNS_PER_SECOND=N    users' runs a second (default: 10, for which the manifests' figures are predicted)
#   SLIPWAY_QUESTIONS=N          held-out questions that it is asked (default: 200)
#   SLIPWAY_EXACT_PERCENT=N      how many of 100 it must answer exactly (default: 95)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# shellcheck source=../demo/agent.sh
source "$REPOSITORY/e2e/demo/agent.sh"

export SLIPWAY_RUNS_PER_SECOND=${SLIPWAY_RUNS_PER_SECOND:-10}
readonly REPORT=$LOGS/facts-agent.html MANIFEST=${SLIPWAY_GPU_MANIFEST:-gpu.yaml}

apply_gpu_agent() {
  gpu_manifest "$MANIFEST" | in_namespace apply -f -
  run_slipway wait facts-agent --timeout 25m
}

# What the container with vLLM has: its user, its GPU, and what vLLM says of itself.
show_server() {
  local pod
  pod=$(serving_pod facts-agent)
  run_kubectl --namespace "$NAMESPACE" get "$pod" --output \
    'jsonpath={range .spec.initContainers[?(@.name=="triton")]}{.command}{"\n"}{.resources}{"\n"}{end}'
  run_kubectl --namespace "$NAMESPACE" exec "$pod" --container triton -- \
    sh -c 'id; grep "^CapEff\|^NoNewPrivs" /proc/self/status; ls /dev | grep nvidia || true'
  is_rehearsal || run_kubectl --namespace "$NAMESPACE" exec "$pod" --container triton -- \
    python3 -c 'import torch, vllm; print(torch.cuda.get_device_name(0), torch.__version__, vllm.__version__)'
  run_kubectl --namespace "$NAMESPACE" logs "$pod" --container triton |
    grep --ignore-case 'version\|backend\|took\|memory\|graph\|throughput' | head -n 40 || true
}

write_report() { run_slipway report facts-agent --output "$REPORT"; }

main() {
  local started=$SECONDS
  name_tools
  step "namespace" "$(kubectl_line) get namespace $NAMESPACE" create_namespace
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  open_step "deploy the agent" "$(kubectl_line) -n $NAMESPACE describe agd facts-agent" apply_gpu_agent
  open_step "ask the agent" "$(kubectl_line) -n $NAMESPACE logs deploy/facts" ask_agent
  open_step "held-out questions" "$(kubectl_line) -n $NAMESPACE logs deploy/facts" ask_unseen
  open_step "send traffic" "$(kubectl_line) -n $NAMESPACE describe job traffic" send_traffic
  open_step "status" "$(kubectl_line) -n $NAMESPACE get pods" show_status
  open_step "the server" "$(kubectl_line) -n $NAMESPACE get pods" show_server
  step "report" "$(kubectl_line) -n $NAMESPACE get profiles" write_report
  tell_durations "$started"
  hand_over >/dev/null
  printf '\nLook further; first, in this shell:\n'
  exports
}

main

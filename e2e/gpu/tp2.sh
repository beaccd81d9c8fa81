#!/usr/bin/env bash
# Shows an agent whose model two GPUs of the node serve together: vLLM splits each layer (tensor parallelism of 2). The
# agent is asked questions that its model has never seen.
#
# It needs two whole GPUs; an agent of agent.sh or rollout.sh is removed first, for it holds one. At the end it gives
# both back. After a failure its agent stays to be looked at.
#
#   SLIPWAY_QUESTIONS=N          held-out questions that it is asked (default: 200)
#   SLIPWAY_EXACT_PERCENT=N      how many of 100 it must answer exactly (default: 95)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# shellcheck source=lib/device.sh
source "$GPU_SCRIPTS/lib/device.sh"
# shellcheck source=../demo/agent.sh
source "$REPOSITORY/e2e/demo/agent.sh"

readonly AGENT=facts-agent-tp2

# Two pods that take turns on one GPU are not two GPUs.
check_gpus() {
  local allocatable sharing
  allocatable=$(allocatable_gpus)
  sharing=$(run_kubectl get node "$NODE_NAME" --output 'jsonpath={.metadata.labels.nvidia\.com/gpu\.sharing-strategy}')
  printf 'allocatable: nvidia.com/gpu: %s, sharing: %s\n' "${allocatable:-0}" "${sharing:-none}"
  [[ ${sharing:-none} == none ]] || { printf 'the GPUs are shared: start the node without SLIPWAY_GPU_SHARES\n' && return 1; }
  ((${allocatable:-0} >= 2)) || { printf 'two GPUs are needed\n' && return 1; }
}

free_gpus() {
  local attempt
  in_namespace delete agd facts-agent --ignore-not-found
  for attempt in {1..120}; do
    [[ -n $(in_namespace get pods --selector slipway.dev/agent-deployment=facts-agent --output name) ]] || return 0
    sleep 1
  done
  printf 'pods of facts-agent are still there after %d s\n' "$attempt"
  return 1
}

deploy_agent() { deploy gpu-tp2.yaml "$AGENT"; }

# What shows that both GPUs serve: the options that vLLM took, its ranks, and the memory that each GPU holds.
show_server() {
  local pod
  pod=$(serving_pod "$AGENT")
  in_namespace get "$pod" --output \
    'jsonpath={range .spec.initContainers[?(@.name=="triton")]}{.command}{"\n"}{.resources}{"\n"}{end}'
  in_namespace exec "$pod" --container triton -- \
    sh -c 'id; grep "^CapEff" /proc/self/status; ls /dev | grep "nvidia[0-9]"; env | grep "^NCCL\|^VLLM" || true'
  in_namespace logs "$pod" --container triton |
    grep --ignore-case 'tensor_parallel\|world.size\|rank\|nccl\|all.\?reduce\|memory\|took\|graph' | head -n 60 || true
  run_nvidia_smi --query-gpu=index,name,memory.used,utilization.gpu,power.draw --format=csv
  run_nvidia_smi topo --matrix || true
}

# What the pod's init container said of both GPUs.
show_preflight() {
  in_namespace get "$(serving_pod "$AGENT")" --output \
    'jsonpath={.status.initContainerStatuses[?(@.name=="preflight")].state.terminated.message}'
  printf '\n'
}

# Both GPUs hold a rank's weights and cache.
check_both_hold_memory() {
  local used
  mapfile -t used < <(run_nvidia_smi --query-gpu=memory.used --format=csv,noheader,nounits)
  printf 'MiB in use: %s\n' "${used[*]}"
  ((used[0] > 1024 && used[1] > 1024))
}

main() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd $AGENT"
  step "two GPUs" "run it on a machine with two GPUs" check_gpus
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  step "free the GPUs" "$(kubectl_line) -n $NAMESPACE get pods" free_gpus
  open_step "deploy the agent" "$look" deploy_agent
  open_step "the server" "$(kubectl_line) -n $NAMESPACE get pods" show_server
  step "both GPUs at work" "nvidia-smi shows what each holds" check_both_hold_memory
  open_step "held-out questions" "$look" ask_held_out "$AGENT"
  open_step "preflight" "$look" show_preflight
  open_step "give the GPUs back" "$look" remove "$AGENT"
  tell_durations "$started"
}

main

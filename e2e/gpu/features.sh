#!/usr/bin/env bash
# Shows an agent whose engine has three features of vLLM: n-gram speculation, KV offload and structured outputs. It is
# asked held-out questions. Then vLLM's own counters and answers must show each feature.
#
# It needs a GPU, or a share of one, that no other agent holds.
#
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

readonly AGENT=facts-agent-features

# The options that vLLM took, and what it says of the features. The stand-in tells its options alone.
show_server() {
  local pod log
  pod=$(serving_pod "$AGENT")
  log=$(in_namespace logs "$pod" --container triton)
  grep --ignore-case --max-count 30 'speculative\|offload\|structured\|stand-in for\|KV cache size' <<<"$log"
  is_rehearsal || in_namespace exec --stdin "$pod" --container triton -- python3 - <"$GPU_SCRIPTS/features_seen.py"
}

main() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd $AGENT"
  step "namespace" "$(kubectl_line) get namespace $NAMESPACE" create_namespace
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  open_step "deploy the agent" "$look" deploy_anew gpu-features.yaml "$AGENT"
  open_step "held-out questions" "$look" ask_unseen "$AGENT"
  open_step "the features" "$(kubectl_line) -n $NAMESPACE get pods" show_server
  step "remove the agent" "$look" remove "$AGENT"
  tell_durations "$started"
}

main

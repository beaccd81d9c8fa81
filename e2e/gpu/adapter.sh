#!/usr/bin/env bash
# Shows an agent whose model has an adapter of LoRA in a folder of its checkpoint: vLLM lists it under the agent's model
# name, and it gives tokens other probabilities than the model alone. The agent is asked questions through it.
#
# It needs a GPU that no other agent holds.
#
#   SLIPWAY_QUESTIONS=N          held-out questions that it is asked (default: 50); none need be answered as the model
#                                alone does, for the adapter's weights are random
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# shellcheck source=../demo/agent.sh
source "$REPOSITORY/e2e/demo/agent.sh"

export SLIPWAY_QUESTIONS=${SLIPWAY_QUESTIONS:-50} SLIPWAY_EXACT_PERCENT=0
readonly AGENT=facts-agent-adapter MODEL=react-512 FOLDER=adapters/random

# The server of models gives the adapter as files of the checkpoint. A directory of a ConfigMap would be links.
give_adapter() {
  local written=$LOGS/adapter mounts='' file
  run_kubectl get --raw "/api/v1/namespaces/$NAMESPACE/services/models/proxy/$MODEL/config.json" >"$LOGS/config.json"
  python3 "$GPU_SCRIPTS/adapter.py" --config "$LOGS/config.json" --out "$written"
  in_namespace create configmap adapter --from-file "$written" --dry-run=client --output yaml |
    in_namespace apply --server-side -f -
  for file in adapter_config.json adapter_model.safetensors; do
    mounts+="${mounts:+, }{name: adapter, mountPath: /models/$MODEL/$FOLDER/$file, subPath: $file}"
  done
  in_namespace patch deployment models --patch "spec: {template: {spec: {
    volumes: [{name: adapter, configMap: {name: adapter}}], containers: [{name: models, volumeMounts: [$mounts]}]}}}"
  in_namespace rollout status deployment/models --timeout 2m
}

# The options that vLLM took, and what it says of the adapter. The stand-in tells its options alone.
show_server() {
  local pod log
  pod=$(serving_pod "$AGENT")
  log=$(in_namespace logs "$pod" --container triton)
  grep --ignore-case --max-count 30 'lora\|stand-in for' <<<"$log"
  is_rehearsal || in_namespace exec --stdin "$pod" --container triton -- python3 - <"$GPU_SCRIPTS/adapter_seen.py"
}

main() {
  local started=$SECONDS look
  name_tools
  look="$(kubectl_line) -n $NAMESPACE describe agd $AGENT"
  step "namespace" "$(kubectl_line) get namespace $NAMESPACE" create_namespace
  step "start model and look-up servers" "$(kubectl_line) -n $NAMESPACE describe pods" start_servers
  step "give the adapter" "$(kubectl_line) -n $NAMESPACE describe deployment models" give_adapter
  open_step "deploy the agent" "$look" deploy_anew gpu-adapter.yaml "$AGENT"
  open_step "the adapter" "$(kubectl_line) -n $NAMESPACE get pods" show_server
  open_step "held-out questions" "$look" ask_held_out "$AGENT"
  step "remove the agent" "$look" remove "$AGENT"
  tell_durations "$started"
}

main

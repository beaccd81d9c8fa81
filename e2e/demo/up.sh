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
# shellcheck source=agent.sh
source "$here/agent.sh"

readonly REPORT=$LOGS/facts-agent.html
IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-triton slipway-model-builder)

write_report() { run_slipway report facts-agent --output "$REPORT"; }

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
    printf '  kubectl apply -f %q      # other objectives and candidates: another campaign\n' "$PWD/e2e/manifests/demo/latency.yaml"
    printf '  kubectl slipway wait facts-agent\n'
  fi
  printf 'The report of the campaign, for a browser:\n  %s\n' "$REPORT"
  printf '  make demo-regression      # another agent: a slow revision is rolled back\n  make demo-down\n'
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
  tell_durations "$started"
  more_commands
}

main

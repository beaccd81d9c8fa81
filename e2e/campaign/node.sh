#!/usr/bin/env bash
# Makes this machine a node with Slipway, from the parts that start.sh unpacked, and starts the suite `campaign` in the
# background. start.sh says what may be set.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../gpu/lib/common.sh
source "$here/../gpu/lib/common.sh"
export DEMO_CLUSTER=campaign
# shellcheck disable=SC2034 # read by the parts
NODE=$SLIPWAY_CACHE/campaign-node
# shellcheck source=../gpu/lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
# Containers need no GPU's runtime.
unset SLIPWAY_RUNTIME_BINARY
for part in machine device slipway; do
  # shellcheck source=/dev/null
  source "$GPU_SCRIPTS/lib/$part.sh"
done

readonly RESULTS=${SLIPWAY_CAMPAIGN_RESULTS:-$SLIPWAY_CACHE/campaign-results}
readonly NEEDED=("${MACHINE_COMMANDS[@]}" openssl curl ps nsenter unshare findmnt)

# Like prepare_machine, for a machine with less.
prepare_bare_machine() {
  local name missing=()
  for name in "${NEEDED[@]}"; do
    command -v "$name" >/dev/null || missing+=("$name")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    printf 'missing: %s\n' "${missing[*]}"
    unpack_packages
  fi
  for name in "${NEEDED[@]}"; do
    command -v "$name" || { printf '%s is missing, and no part has it\n' "$name" && return 1; }
  done
  for name in overlay br_netfilter veth nf_tables; do
    modprobe "$name" 2>/dev/null || true
  done
  mkdir -p "$SLIPWAY_CACHE/bin"
  ln -sfn "$PARTS"/programs/{helm,kubectl} "$SLIPWAY_CACHE/bin/"
  place_tree
}

# The suite looks for its files where it was compiled.
place_tree() {
  local path
  while IFS= read -r path; do
    [[ ! -e $path/manifests/demo/servers.yaml ]] || continue
    [[ -L $path || ! -e $path ]] || { printf '%s is there, and not this tree\n' "$path" && return 1; }
    mkdir -p "$(dirname "$path")"
    ln -sfn "$REPOSITORY/e2e" "$path"
  done <"$PARTS/programs/campaign.paths"
}

is_running() { kill -0 "$(cat "$RESULTS/pid" 2>/dev/null || printf 'nobody')" 2>/dev/null; }

# Four processors stay for the cluster and for what sends the load.
most_at_once() {
  local at_once=$((($(nproc) - 4) / SLIPWAY_CAMPAIGN_CPUS))
  printf '%d\n' $((at_once > 1 ? at_once : 1))
}

start_suite() {
  mkdir -p "$RESULTS"
  if is_running; then
    printf 'the suite runs already\n'
    return
  fi
  export SLIPWAY_E2E_KUBECONFIG=$KUBECONFIG_FILE SLIPWAY_E2E_KUBECTL=$KUBECTL SLIPWAY_E2E_CLUSTER_NAME=$CLUSTER
  export SLIPWAY_E2E_CLI=$PARTS/programs/kubectl-slipway
  export SLIPWAY_CAMPAIGN_CPUS=${SLIPWAY_CAMPAIGN_CPUS:-2}
  export SLIPWAY_CAMPAIGN_PARALLEL=${SLIPWAY_CAMPAIGN_PARALLEL:-$(most_at_once)}
  export SLIPWAY_CAMPAIGN_OUTPUT=${SLIPWAY_CAMPAIGN_OUTPUT:-$RESULTS/campaign.json}
  rm -f "$RESULTS/rc"
  # shellcheck disable=SC2016 # the shell of the suite expands it
  setsid bash -c '"$0" --test-threads=1 --nocapture; echo $? >"$1/rc"' "$PARTS/programs/campaign" "$RESULTS" \
    >>"$RESULTS/campaign.log" 2>&1 </dev/null &
  printf '%s\n' "$!" >"$RESULTS/pid"
  disown
  printf 'the suite runs, %s campaigns at once with %s processors each: %s\n' "$SLIPWAY_CAMPAIGN_PARALLEL" \
    "$SLIPWAY_CAMPAIGN_CPUS" "$RESULTS/campaign.log"
}

wait_for_suite() {
  local until=$((SECONDS + ${SLIPWAY_CAMPAIGN_WAIT:-0}))
  while is_running && ((SECONDS < until)); do
    sleep 2
  done
  tail -n 40 "$RESULTS/campaign.log"
  if is_running; then
    printf 'it still runs\n'
    return
  fi
  return "$(cat "$RESULTS/rc" 2>/dev/null || printf '1')"
}

main() {
  local started=$SECONDS
  name_tools
  step "machine" "install by hand what the log names" prepare_bare_machine
  step "cluster" "the log names the component" start_cluster
  step "images" "$REPOSITORY/e2e/cluster/enter.sh --name $CLUSTER ctr -n k8s.io images list" import_images
  step "Slipway" "$(kubectl_line) -n $SYSTEM_NAMESPACE describe pods" install_slipway
  tell_durations "$started"
  start_suite
  wait_for_suite
}

main

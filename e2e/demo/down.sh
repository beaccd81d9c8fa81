#!/usr/bin/env bash
# Removes what the demo made: its cluster; or, with DEMO_KUBECONFIG, its namespace and its releases.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=steps.sh
source "$here/steps.sh"
# shellcheck source=common.sh
source "$here/common.sh"

say_kept() {
  rm -rf "$HAND_BIN" "$HAND_KUBECONFIG"
  printf 'Kept for the next demo: %s (binaries, images, logs, report) and the caches of Go and cargo:\n' "$SLIPWAY_CACHE"
  printf '  %s\n' "$(go env GOCACHE)" "$(go env GOMODCACHE)" "${CARGO_HOME:-$HOME/.cargo}"
  printf 'README.md says how to remove them.\n'
}

if [[ -z ${DEMO_KUBECONFIG:-} ]]; then
  e2e/cluster/down.sh --name "$CLUSTER"
  say_kept
  exit 0
fi
e2e/tools/build.sh helm kubectl >/dev/null
name_tools
[[ -r $KUBECONFIG_FILE ]] || { printf 'DEMO_KUBECONFIG is not a readable file: %s\n' "$KUBECONFIG_FILE" >&2; exit 1; }
mine=$(run_kubectl get namespace --selector "$OURS" --field-selector "metadata.name=$NAMESPACE" --output name)
if [[ -z $mine ]]; then
  printf 'The namespace %s of the demo does not exist: nothing to remove.\n' "$NAMESPACE"
  exit 0
fi
# The agent goes first, while its definition and its operator are there.
run_kubectl --namespace "$NAMESPACE" delete agd facts-agent --ignore-not-found --timeout 2m
for release in slipway slipway-crds; do
  [[ $(namespace_of_release "$release") != "$NAMESPACE" ]] ||
    run_helm uninstall "$release" --namespace "$NAMESPACE" --wait
done
run_kubectl delete "$mine" --timeout 5m
say_kept

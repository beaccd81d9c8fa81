#!/usr/bin/env bash
# Runs suites of tests on a cluster of their own, which is removed afterwards.
#
#   run.sh SUITE...     (suites are the files in e2e/tests: api core ...)
#
# With SLIPWAY_KEEP_CLUSTER=1 the cluster stays for whoever looks into a failure.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}
cluster=${SLIPWAY_TEST_CLUSTER:-test}
images=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-busybox slipway-triton slipway-model-builder)

[[ $# -gt 0 ]] || { echo "usage: run.sh SUITE..." >&2; exit 2; }
# Rollouts need a gateway, and engines whose speed can be set.
[[ " $* " != *" rollout"* ]] || images+=(slipway-traefik slipway-lognormal-builder)
e2e/cluster/prerequisites.sh
helm=$(e2e/tools/build.sh helm)
cargo build --workspace --all-targets --locked --quiet
e2e/images/build.sh "${images[@]}"

remove_cluster() {
  if [[ ${SLIPWAY_KEEP_CLUSTER:-} == 1 ]]; then
    echo "the cluster stays: e2e/cluster/kubectl.sh --name $cluster -- get pods -A" >&2
  else
    e2e/cluster/down.sh --name "$cluster"
  fi
}
trap remove_cluster EXIT
SLIPWAY_E2E_KUBECONFIG=$(e2e/cluster/up.sh --name "$cluster")
SLIPWAY_E2E_CLUSTER_BINARY=$SLIPWAY_CACHE/bin/slipway-cluster
export SLIPWAY_E2E_KUBECONFIG SLIPWAY_E2E_CLUSTER_BINARY
e2e/images/import.sh --name "$cluster" "${images[@]}"

"$helm" --kubeconfig "$SLIPWAY_E2E_KUBECONFIG" upgrade --install slipway-crds charts/slipway-crds
"$helm" --kubeconfig "$SLIPWAY_E2E_KUBECONFIG" upgrade --install slipway charts/slipway \
  --namespace slipway-system --create-namespace --values e2e/manifests/values.yaml --wait --timeout 2m
[[ " ${images[*]} " != *" slipway-traefik "* ]] || e2e/tools/traefik/install.sh --name "$cluster"
for suite in "$@"; do
  cargo test --workspace --locked --test "$suite" -- --test-threads=1 ${SLIPWAY_TEST_FILTER:-}
done

#!/usr/bin/env bash
# Runs a suite of tests on a cluster of its own, which is removed afterwards.
#
#   run.sh api          the API, with the definitions installed and no operator
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}
suite=${1:?usage: run.sh SUITE}
cluster=test-$suite
helm=$(e2e/tools/build.sh helm)

e2e/cluster/prerequisites.sh
trap 'e2e/cluster/down.sh --name "$cluster"' EXIT
SLIPWAY_E2E_KUBECONFIG=$(e2e/cluster/up.sh --name "$cluster")
SLIPWAY_E2E_CLUSTER_BINARY=$SLIPWAY_CACHE/bin/slipway-cluster
export SLIPWAY_E2E_KUBECONFIG SLIPWAY_E2E_CLUSTER_BINARY

"$helm" --kubeconfig "$SLIPWAY_E2E_KUBECONFIG" install slipway-crds charts/slipway-crds --wait
cargo test --locked -p slipway-e2e --test "$suite"

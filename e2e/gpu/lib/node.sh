# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# What both scripts of the node share: the demo's steps, and the programs of the parts in place of built ones.

export SLIPWAY_CLUSTER_BINARY=$PARTS/kubernetes/slipway-cluster SLIPWAY_COREDNS_BINARY=$PARTS/kubernetes/coredns
export SLIPWAY_KUBECTL_BINARY=$PARTS/programs/kubectl SLIPWAY_PAUSE_ARCHIVE=$PARTS/kubernetes/pause.tar
export SLIPWAY_RUST_BINARIES=$PARTS/programs
export SLIPWAY_GATEWAY_API=$PARTS/kubernetes/gateway-api
export SLIPWAY_RUNTIME_BINARY=$NODE/runtime
export NODE_NAME=slipway

# shellcheck source=../../demo/steps.sh
source "$REPOSITORY/e2e/demo/steps.sh"
# shellcheck source=../../demo/common.sh
source "$REPOSITORY/e2e/demo/common.sh"
# shellcheck source=../../demo/operator.sh
source "$REPOSITORY/e2e/demo/operator.sh"
mkdir -p "$LOGS" "$NODE"

cluster_folder() { dirname "$KUBECONFIG_FILE"; }

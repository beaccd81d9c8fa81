# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# What the scripts of the node share: the demo's steps, and the programs of the parts in place of built ones.

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

# shellcheck source=rehearsal.sh
source "$(dirname "${BASH_SOURCE[0]}")/rehearsal.sh"

# gpu_manifest NAME [SED_EXPRESSION]: of e2e/manifests/demo. The operator wants the product that the node has.
gpu_manifest() {
  local product
  product=$(run_kubectl get node "$NODE_NAME" --output 'jsonpath={.metadata.labels.nvidia\.com/gpu\.product}')
  manifest "$1" | sed "s|\(nvidia.com/gpu.product: \).*}|\1$product}|" | sed "$(rehearsal_changes)" | sed "${2:-}"
}

# deploy MANIFEST AGENT: until it serves.
deploy() {
  gpu_manifest "$1" | in_namespace apply -f -
  run_slipway wait "$2" --timeout 20m
  run_slipway status "$2"
}

# deploy_anew MANIFEST AGENT: without the agent of an earlier call, which may have been left to be looked at.
deploy_anew() {
  in_namespace delete agd "$2" --ignore-not-found --timeout 2m
  deploy "$@"
}

# remove AGENT
remove() { in_namespace delete agd "$1" --timeout 2m; }

# serving_pod AGENT: a pod of a revision, as pod/NAME.
serving_pod() {
  local pods
  # Not piped: grep ends at the first one, and kubectl would fail to write the rest.
  pods=$(in_namespace get pods --selector "slipway.dev/agent-deployment=$1" --field-selector status.phase=Running \
    --output name)
  grep --max-count 1 "^pod/$1-[0-9a-f]*-" <<<"$pods"
}

# shellcheck shell=bash
# The cluster, and what is put into it. Sourced by accept.sh.

run_kubectl() { "$KUBECTL" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} "$@"; }
in_namespace() { run_kubectl --namespace "$NAMESPACE" "$@"; }
run_slipway() {
  local verb=$1
  shift
  "$SLIPWAY" "$verb" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} --namespace "$NAMESPACE" "$@"
}

# What the stand-ins changed of a node, so that it can be changed back.
readonly PRETENDED=slipway.dev/acceptance-pretended

node_with_gpus() {
  run_kubectl get nodes --selector nvidia.com/gpu.product --output 'jsonpath={.items[0].metadata.name}' 2>/dev/null || true
}

# A node says that it has GPUs, as a device plugin and GPU feature discovery would have it say. Only for stand-ins.
pretend_gpus() {
  local node
  [[ -z $(run_kubectl get nodes --selector "$PRETENDED" --output name) ]] || return 0
  [[ -z $(node_with_gpus) ]] || { printf 'a node has GPUs: call the script without --stand-ins\n' && return 1; }
  node=$(run_kubectl get nodes --output 'jsonpath={.items[0].metadata.name}')
  run_kubectl label node "$node" "nvidia.com/gpu.product=$PRODUCT" "$PRETENDED=true"
  run_kubectl patch node "$node" --subresource status --type merge --patch \
    '{"status": {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}}}'
}

stop_pretending() {
  local node
  for node in $(run_kubectl get nodes --selector "$PRETENDED" --output 'jsonpath={.items[*].metadata.name}'); do
    run_kubectl patch node "$node" --subresource status --type json --patch \
      '[{"op": "remove", "path": "/status/capacity/nvidia.com~1gpu"}, {"op": "remove", "path": "/status/allocatable/nvidia.com~1gpu"}]' || true
    run_kubectl label node "$node" nvidia.com/gpu.product- "$PRETENDED-"
  done
}

# The namespace is this script's own: it removes nothing that was there before it.
make_namespace() {
  local owner
  owner=$(run_kubectl get namespace "$NAMESPACE" --ignore-not-found --output 'jsonpath={.metadata.name}={.metadata.labels.slipway\.dev/acceptance}')
  case $owner in
    '')
      run_kubectl create namespace "$NAMESPACE"
      run_kubectl label namespace "$NAMESPACE" slipway.dev/acceptance=true pod-security.kubernetes.io/enforce=restricted
      ;;
    "$NAMESPACE=true") ;;
    *) printf 'the namespace %s is not of this script; name another one with --namespace\n' "$NAMESPACE" && return 1 ;;
  esac
}

# Agents go first, while their operator can put away what they hold.
clean() {
  [[ -n $KUBECTL ]] || die "kubectl is missing: name it with KUBECTL"
  if [[ -n $(run_kubectl get namespace --selector slipway.dev/acceptance=true --field-selector "metadata.name=$NAMESPACE" --output name) ]]; then
    in_namespace delete agd --all --timeout 5m
    run_kubectl delete namespace "$NAMESPACE" --timeout 10m
  else
    printf 'the namespace %s is not there, or not of this script\n' "$NAMESPACE"
  fi
  stop_pretending
  rm -rf "$OUTPUT/steps"
  printf 'The report and the logs stay in %s.\n' "$OUTPUT"
}

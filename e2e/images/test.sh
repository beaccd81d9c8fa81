#!/usr/bin/env bash
# Test: the images do their work in a running cluster.
#
#   test.sh [--name CLUSTER] [--dir FOLDER]
#
# Needs the images built and imported; works in a namespace of its own.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here namespace=images-test
CLUSTER=("$@")

kubectl() { "$here/../cluster/kubectl.sh" "${CLUSTER[@]}" -- --namespace "$namespace" "$@"; }

# expect POD CONTAINER PATTERN...: the pod succeeds and its log matches them all.
expect() {
  local pod=$1 container=$2 log pattern
  shift 2
  kubectl wait --timeout 90s --for jsonpath='{.status.phase}'=Succeeded "pod/$pod" >/dev/null ||
    { kubectl describe pod "$pod" | tail -n 15; kubectl logs "$pod" --all-containers --tail 20; exit 1; } >&2
  log=$(kubectl logs "$pod" --container "$container")
  for pattern in "$@"; do
    if ! grep --quiet --extended-regexp "$pattern" <<<"$log"; then
      printf '%s: the log of %s does not match "%s":\n%s\n' "${0##*/}" "$pod" "$pattern" "$log" >&2
      exit 1
    fi
    printf 'ok  %s: %s\n' "$pod" "$(grep --max-count 1 --only-matching --extended-regexp "$pattern" <<<"$log")"
  done
}

clean_up() { "$here/../cluster/kubectl.sh" "${CLUSTER[@]}" -- delete namespace "$namespace" >/dev/null; }

kubectl create namespace "$namespace" >/dev/null
trap clean_up EXIT
kubectl wait --for create serviceaccount/default --timeout 30s >/dev/null
kubectl create --filename "$here/testdata/pods.yaml" >/dev/null
expect triton client '"data":\[42\]' 'numpy [0-9.]+, onnxruntime [0-9.]+'
expect analyzer versions 'usage: model-analyzer' 'triton-model-analyzer 1\.48\.0' 'Perf Analyzer Version 2\.51\.0'
expect scratch worker 'slipway-worker [0-9.]+'
expect builder builder 'usage: builder'

#!/usr/bin/env bash
# Brings the kinds of the Prometheus operator that Slipway writes or describes into a running cluster; the operator itself is not run.
#
#   install.sh [--name CLUSTER] [--dir FOLDER]
#   install.sh --where      (prints the folder with all of its kinds)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly MODULE=github.com/prometheus-operator/prometheus-operator

kubectl() { "$here/../../cluster/kubectl.sh" "${CLUSTER[@]}" -- "$@"; }
CLUSTER=("$@")

(cd "$here" && GOFLAGS=-mod=readonly go mod download "$MODULE")
crds=$(cd "$here" && GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' "$MODULE")/example/prometheus-operator-crd
[[ ${1:-} != --where ]] || { printf '%s\n' "$crds"; exit 0; }
for kind in prometheusrules podmonitors; do
  kubectl apply --server-side --filename "$crds/monitoring.coreos.com_$kind.yaml" >/dev/null
done
kubectl wait --for condition=Established --timeout 30s crd/{prometheusrules,podmonitors}.monitoring.coreos.com >/dev/null

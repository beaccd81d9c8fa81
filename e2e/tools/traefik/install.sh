#!/usr/bin/env bash
# Brings the Gateway API and Traefik into a running cluster, which has the image slipway-traefik already.
#
#   install.sh [--name CLUSTER] [--dir FOLDER]
#
# The CRDs (standard channel) are those of the Gateway API's own module, in the version that Traefik is built with.
#   SLIPWAY_GATEWAY_API=FOLDER    the CRDs, where Go and its modules are missing
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
CLUSTER=("$@")

kubectl() { "$here/../../cluster/kubectl.sh" "${CLUSTER[@]}" -- "$@"; }

gateway_api() {
  local module
  if [[ -n ${SLIPWAY_GATEWAY_API:-} ]]; then
    printf '%s\n' "$SLIPWAY_GATEWAY_API"
    return
  fi
  cd "$here/../../cluster"
  GOFLAGS=-mod=readonly go mod download sigs.k8s.io/gateway-api
  module=$(GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
  printf '%s/config/crd/standard\n' "$module"
}

crds=$(gateway_api)
# One of them is larger than the annotation of client-side apply may be.
kubectl apply --server-side --filename "$crds" >/dev/null
kubectl wait --for condition=Established --timeout 30s \
  crd/{gatewayclasses,gateways,httproutes,grpcroutes,referencegrants,backendtlspolicies}.gateway.networking.k8s.io >/dev/null
kubectl apply --filename "$here/../../manifests/rollout/traefik.yaml" >/dev/null
kubectl --namespace gateway rollout status --timeout 90s deployment/traefik
kubectl --namespace gateway wait --for condition=Programmed --timeout 60s gateway/agents

#!/usr/bin/env bash
# Records the answers of a real API server that operator/tests/faults is compared with, on a cluster of its own (root).
#
# Controllers and scheduler stand still meanwhile: every change is one of the requests.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cluster=(--name conformance)
export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
export SLIPWAY_IMAGE_STORE=${SLIPWAY_IMAGE_STORE:-$SLIPWAY_CACHE/conformance-images}

e2e/cluster/prerequisites.sh
cargo test --workspace --locked --quiet --no-run --test faults
trap 'e2e/cluster/down.sh "${cluster[@]}"' EXIT
SLIPWAY_CONFORMANCE_KUBECONFIG=$(e2e/cluster/up.sh "${cluster[@]}")
export SLIPWAY_CONFORMANCE_KUBECONFIG
kubectl() { e2e/cluster/kubectl.sh "${cluster[@]}" -- "$@"; }
kubectl create --filename charts/slipway-crds/files
kubectl wait --timeout 60s --for condition=Established customresourcedefinitions --all
kubectl create namespace conformance
# Claims of it may grow; nobody makes volumes of it.
kubectl create --filename - <<'EOF'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: growing}
provisioner: example.com/nobody
allowVolumeExpansion: true
volumeBindingMode: WaitForFirstConsumer
EOF
# Controllers make these two for a namespace, and then have nothing to do.
until kubectl --namespace conformance get serviceaccount/default configmap/kube-root-ca.crt >/dev/null 2>&1; do sleep 0.5; done
for process in kube-controller-manager kube-scheduler; do
  e2e/cluster/enter.sh "${cluster[@]}" pkill -STOP --full "$process"
done
cargo test --workspace --locked --test faults -- --ignored --exact conformance::the_answers_of_a_real_server_are_recorded

#!/usr/bin/env bash
# Upgrades an operator of an earlier tree to this one, beside agents that it has brought up, on a cluster of its own.
#
#   upgrade.sh REF     (a commit with a chart, such as aeec56f~1: the last before pods had layouts)
#
# The earlier tree is checked out and built beside this one; its images get the tag `before`. The suite `upgrade` does
# the rest. With SLIPWAY_KEEP_CLUSTER=1 the cluster stays for whoever looks into a failure.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

reference=${1:?usage: upgrade.sh REF}
export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}
cluster=${SLIPWAY_TEST_CLUSTER:-upgrade}
before=$SLIPWAY_CACHE/upgrade
own=(slipway-operator slipway-worker slipway-agent-runtime)
others=(slipway-e2e slipway-busybox slipway-triton slipway-model-builder slipway-traefik slipway-lognormal-builder)

commit=$(git rev-parse --verify --quiet "$reference^{commit}") ||
  { echo "upgrade.sh: no commit $reference in this clone; fetch the history with git fetch --unshallow" >&2; exit 2; }

# A tree of its own: what is checked out here stays as it is.
remove_tree() { git worktree remove --force "$before/tree" 2>/dev/null || true; }
remove_tree
git worktree prune
mkdir -p "$before"
git worktree add --quiet --detach "$before/tree" "$commit"
trap remove_tree EXIT

e2e/cluster/prerequisites.sh
helm=$(e2e/tools/build.sh helm)
packages=("${own[@]/#/--package=}")
cargo build --workspace --all-targets --locked --quiet
cargo test --workspace --locked --quiet --no-run --test=upgrade
# With features of its own: only binaries are wanted, and no other step uses them.
(cd "$before/tree" && CARGO_TARGET_DIR=$before/target cargo build --locked --quiet --bins "${packages[@]}")

remove_all() {
  remove_tree
  if [[ ${SLIPWAY_KEEP_CLUSTER:-} == 1 ]]; then
    echo "the cluster stays: e2e/cluster/kubectl.sh --name $cluster -- get pods -A" >&2
  else
    e2e/cluster/down.sh --name "$cluster"
  fi
}
trap remove_all EXIT
SLIPWAY_E2E_KUBECONFIG=$(e2e/cluster/up.sh --name "$cluster")
SLIPWAY_E2E_KUBECTL=$(e2e/tools/build.sh kubectl)
SLIPWAY_E2E_AUDIT_LOG=$(dirname "$SLIPWAY_E2E_KUBECONFIG")/log/audit.log
SLIPWAY_E2E_HELM=$helm
SLIPWAY_E2E_CLUSTER_NAME=$cluster
export SLIPWAY_E2E_KUBECONFIG SLIPWAY_E2E_KUBECTL SLIPWAY_E2E_AUDIT_LOG SLIPWAY_E2E_HELM SLIPWAY_E2E_CLUSTER_NAME

# One name and two contents: the earlier ones first, under a second tag that keeps them.
SLIPWAY_RUST_BINARIES=$before/target/x86_64-unknown-linux-gnu/debug e2e/images/build.sh "${own[@]}"
e2e/images/import.sh --name "$cluster" "${own[@]}"
for image in "${own[@]}"; do
  e2e/cluster/enter.sh --name "$cluster" ctr --namespace k8s.io images tag --force \
    "slipway.dev/$image:dev" "slipway.dev/$image:before" >/dev/null
done
e2e/images/build.sh "${own[@]}" "${others[@]}"
e2e/images/import.sh --name "$cluster" "${own[@]}" "${others[@]}"

install() { "$helm" --kubeconfig "$SLIPWAY_E2E_KUBECONFIG" upgrade --install "$@"; }
install slipway-crds "$before/tree/charts/slipway-crds"
install slipway "$before/tree/charts/slipway" --namespace slipway-system --create-namespace \
  --values "$before/tree/e2e/manifests/values.yaml" --set image.tag=before --wait --timeout 2m
e2e/tools/traefik/install.sh --name "$cluster"

mkdir -p "$SLIPWAY_CACHE/scenarios"
echo "upgrading $(git rev-parse --short "$commit") to $(git rev-parse --short HEAD)"
cargo test --workspace --locked --test upgrade -- --nocapture 2>&1 | tee "$SLIPWAY_CACHE/scenarios/upgrade.log"

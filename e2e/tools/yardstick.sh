#!/usr/bin/env bash
# Compiles a pinned crate and a pinned Go module from nothing, and prints the seconds of each.
#
# Machines differ and have bad days. A build time in docs/benchmarks.md is therefore given as a multiple of these two, taken
# on the same machine on the same day, with nothing else running. Downloads are not counted.
set -euo pipefail

readonly CRATE=ripgrep@14.1.1
readonly GO_MODULE=sigs.k8s.io/kustomize/kustomize/v5@v5.4.3

WORK=$(mktemp -d)
# Go writes its module cache without write permission.
trap 'chmod -R u+w "$WORK"; rm -rf "$WORK"' EXIT

# The settings of this workspace are not those of the yardstick.
cd "$WORK"
unset CARGO_TARGET_DIR RUSTFLAGS GOFLAGS

# seconds NAME COMMAND...
seconds() {
  local name=$1 started
  shift
  started=$(date +%s%N)
  "$@" >"$WORK/log" 2>&1 || { cat "$WORK/log" >&2; exit 1; }
  printf '%s %d.%d s\n' "$name" $((($(date +%s%N) - started) / 1000000000)) $((($(date +%s%N) - started) / 100000000 % 10))
}

crate() { cargo install --force --quiet --locked --debug --root "$WORK/root" --target-dir "$WORK/$1" "$CRATE"; }
module() { CGO_ENABLED=0 GOBIN=$WORK/bin GOCACHE=$WORK/$1 go install "$GO_MODULE"; }

# The first of each fills the caches of downloads.
crate warm-up >/dev/null 2>&1
seconds "crate $CRATE" crate measured
module warm-up >/dev/null 2>&1
seconds "module $GO_MODULE" module measured

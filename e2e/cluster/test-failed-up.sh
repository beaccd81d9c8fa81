#!/usr/bin/env bash
# Test: an up.sh that fails says at which step and where the log is, and removes
# what it made.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=lib/inventory.sh
source "$here/lib/inventory.sh"

WORK=$(mktemp -d)
CLUSTER=(--name test-failed --dir "$WORK/cluster")
trap 'say "test-failed-up.sh: line $LINENO failed: $BASH_COMMAND"' ERR
trap '"$here/down.sh" "${CLUSTER[@]}" >/dev/null 2>&1; rm -rf "$WORK"' EXIT

# fails WHAT WANTED_TEXT COMMAND...: it must fail, say the text, leave nothing.
fails() {
  local what=$1 wanted=$2
  shift 2
  if "$@" >"$WORK/output" 2>&1; then
    die "$what: came up all the same"
  fi
  if ! grep --quiet --fixed-strings "$wanted" "$WORK/output"; then
    cat "$WORK/output" >&2
    die "$what: the output lacks \"$wanted\""
  fi
  inventory "$WORK/after"
  diff --recursive --unified=0 "$WORK/before" "$WORK/after" || die "$what: something is left (lines above)"
  say "ok  $what"
}

up() { env "$@" "$here/up.sh" "${CLUSTER[@]}"; }

# A store of the test's own: another cluster may be using the shared one.
export SLIPWAY_IMAGE_STORE=$WORK/store

"$here/build.sh" >/dev/null
"$here/../tools/build.sh" kubectl >/dev/null
"$here/pause/image.sh" >/dev/null
inventory "$WORK/before"

fails "a component that does not start is named" 'FAILED at step "etcd"' \
  up SLIPWAY_CLUSTER_BINARY=/bin/false
fails "a missing image archive is named" "no-such-archive.tar: no such file" \
  up SLIPWAY_PAUSE_ARCHIVE="$WORK/no-such-archive.tar"
fails "a folder that holds something else is refused" "is not empty and not a cluster's folder" \
  "$here/up.sh" --name test-failed --dir "$here"
fails "a name that cannot be used is refused" "must be lower-case letters" \
  "$here/up.sh" --name Bad_Name
mkdir -p "$SLIPWAY_IMAGE_STORE"
printf 'the cluster "other" in /somewhere\n' >"$SLIPWAY_IMAGE_STORE/holder"
fails "the holder of the image store is named" 'is in use by the cluster "other" in /somewhere' \
  flock "$SLIPWAY_IMAGE_STORE/lock" "$here/up.sh" "${CLUSTER[@]}"

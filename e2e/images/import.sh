#!/usr/bin/env bash
# Brings built images into a running cluster, where they are not there yet.
#
#   import.sh [--name CLUSTER] [--dir FOLDER] [IMAGE...]     (default: all built)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/common.sh
source "$here/lib/common.sh"

CLUSTER=()
while [[ $# -gt 0 && $1 == --* ]]; do
  CLUSTER+=("$1" "${2:?$1 needs a value}")
  shift 2
done

node_ctr() { "$IMAGES/../cluster/enter.sh" "${CLUSTER[@]}" ctr --namespace k8s.io "$@"; }

# The id of what the cluster has under a name; import_image leaves it as label.
imported_id() { node_ctr images list "name==$1" | grep -o 'slipway.dev/id=[0-9a-f]*' | cut -d= -f2; }

import_image() {
  local tag=$1 id old started
  id=$(image_id "$tag")
  id=${id#sha256:}
  [[ -n $id ]] || die "$tag is not built; run $IMAGES/build.sh"
  old=$(imported_id "$tag" || true)
  if [[ $old == "$id" ]]; then
    say "$tag is in the cluster"
    return
  fi
  started=$(date +%s%N)
  run_buildah push --quiet "$tag" "docker-archive:/dev/stdout:$tag" | node_ctr images import - >/dev/null
  node_ctr images label "$tag" "slipway.dev/id=$id" >/dev/null
  # The CRI keeps a name for every id it has seen; without it the old layers go.
  [[ -z $old ]] || node_ctr images remove "sha256:$old" >/dev/null 2>&1 || true
  say "imported $tag in $((($(date +%s%N) - started) / 1000000)) ms"
}

if [[ $# -gt 0 ]]; then
  tags=()
  for name in "$@"; do
    tags+=("$(tag_of "$name")")
  done
else
  # slipway-python is only what others are built on.
  mapfile -t tags < <(run_buildah images --format '{{.Name}}:{{.Tag}}' |
    grep '^slipway.dev/slipway-.*:dev$' | grep -v '^slipway.dev/slipway-python:')
fi
for tag in "${tags[@]}"; do
  import_image "$tag"
done

#!/usr/bin/env bash
# Packs slipway-pause into an image archive next to the binary, if the binary
# has changed since. Prints the archive's path.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../images/lib/common.sh
source "$here/../../images/lib/common.sh"

binary=$(realpath "$SLIPWAY_CACHE/bin/slipway-pause")
readonly here binary image=slipway.dev/pause:dev archive=$binary.tar

pack() {
  local context
  context=$(mktemp -d)
  cp "$binary" "$context/pause"
  run_buildah build --quiet --tag "$image" --file "$here/Dockerfile" "$context" >&2
  rm -f "$archive.partial"
  run_buildah push --quiet "$image" "docker-archive:$archive.partial:$image" >&2
  mv "$archive.partial" "$archive"
  rm -rf "$context"
  find "${binary%/*}" -name 'slipway-pause-*.tar' ! -path "$archive" -delete
}

[[ -e $archive ]] || pack
printf '%s\n' "$archive"

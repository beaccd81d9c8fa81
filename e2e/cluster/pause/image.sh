#!/usr/bin/env bash
# Packs slipway-pause into an image archive next to the binary, if the binary
# has changed since. Prints the archive's path.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
binary=$(realpath "$cache/bin/slipway-pause")
readonly binary image=slipway.dev/pause:dev archive=$binary.tar

pack() {
  local context
  context=$(mktemp -d)
  cp "$binary" "$context/pause"
  local buildah=(buildah --root "$cache/buildah/root" --runroot "$cache/buildah/run" --storage-driver overlay)
  "${buildah[@]}" build --quiet --tag "$image" --file "$here/Dockerfile" "$context" >&2
  rm -f "$archive.partial"
  "${buildah[@]}" push --quiet "$image" "docker-archive:$archive.partial:$image" >&2
  mv "$archive.partial" "$archive"
  rm -rf "$context"
}

[[ -e $archive ]] || pack
printf '%s\n' "$archive"

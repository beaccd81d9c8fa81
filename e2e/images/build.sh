#!/usr/bin/env bash
# Builds container images without a registry.
#
#   build.sh [NAME...]      (default: all; names are the folders beside this file)
#
# An image is built again only when something that goes into it has changed.
# Result: slipway.dev/NAME:dev in buildah's store below $SLIPWAY_CACHE; import.sh
# brings it into a cluster. The images of our own programs take the binaries
# that cargo left in $CARGO_TARGET_DIR (or $SLIPWAY_RUST_BINARIES).
set -euo pipefail
shopt -s inherit_errexit

for part in common base downloads contexts; do
  # shellcheck source=/dev/null
  source "$(dirname "${BASH_SOURCE[0]}")/lib/$part.sh"
done

# What decides an image's content: its recipe, its files, the image below it.
content_key() {
  local name=$1 context=$2 parent
  parent=$(awk '$1 == "FROM" {print $2; exit}' "$IMAGES/$name/Dockerfile")
  {
    [[ $parent == scratch ]] || image_id "$parent"
    find "$IMAGES/$name" -type f -print0 | hash_of_files
    # Wheels and packages are pinned by the lists that they were fetched with.
    (cd "$context" && find . -type f ! -name '*.whl' ! -name '*.deb' -print0 | hash_of_files)
  } | sha256sum | cut -c1-16
}

# By content alone, so that clones share the layers.
lists_key() { (cd "$IMAGES/$1" && find . -name '*.txt' -print0 | hash_of_files); }

is_built() { [[ $(cat "$IMAGE_CACHE/keys/$1" 2>/dev/null) == "$2" && -n $(image_id "$(tag_of "$1")") ]]; }

build_image() {
  local name=$1 context=$IMAGE_CACHE/contexts/$1 key old options started=$SECONDS
  fill_context "$name" "$context"
  key=$(content_key "$name" "$context")
  if is_built "$name" "$key"; then
    say "$(tag_of "$name") is up to date"
    return
  fi
  say "building $(tag_of "$name")"
  old=$(image_id "$(tag_of "$name")")
  # One file from nothing: cached layers would only pile up, and with a fixed time
  # the same binary gives the same id. (Python compares times with its caches.)
  options=(--layers)
  ! grep --quiet '^FROM scratch' "$IMAGES/$name/Dockerfile" || options=(--timestamp 0)
  ! grep --quiet '^ARG LISTS' "$IMAGES/$name/Dockerfile" || options+=(--build-arg "LISTS=$(lists_key "$name")")
  run_buildah build --quiet "${options[@]}" --pull-never --isolation chroot --tag "$(tag_of "$name")" \
    --file "$IMAGES/$name/Dockerfile" "$context" >/dev/null
  # The one before, unless another image is built on it.
  [[ -z $old || $old == "$(image_id "$(tag_of "$name")")" ]] || run_buildah rmi "$old" >/dev/null 2>&1 || true
  mkdir -p "$IMAGE_CACHE/keys"
  printf '%s\n' "$key" >"$IMAGE_CACHE/keys/$name"
  say "built $(tag_of "$name") in $((SECONDS - started)) s"
}

names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=("${ALL_IMAGES[@]}")
for name in "${names[@]}"; do
  [[ -f $IMAGES/$name/Dockerfile ]] || die "no image \"$name\"; known are ${ALL_IMAGES[*]}"
done
# Contexts and store are shared; a second caller waits and finds the work done.
mkdir -p "$IMAGE_CACHE"
exec {lock}>"$IMAGE_CACHE/lock"
flock "$lock"
for name in "${names[@]}"; do
  build_image "$name"
done

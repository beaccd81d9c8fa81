# shellcheck shell=bash
# Debian's slim image, made here from Debian's packages under the name that it
# has in a registry: the Dockerfiles build unchanged where there is one.

# What Debian leaves out of its slim images too.
# shellcheck disable=SC2016 # mmdebstrap's shell expands the hook
SLIM=(
  # Else the package that merges /usr afterwards comes along, with all of Perl.
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include=usr-is-merged
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*'
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/lintian/*'
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*.log "$1"/var/log/apt'
)

base_archive() { printf '%s/base/bookworm.tar\n' "$IMAGE_CACHE"; }

# Made again when this file changes.
base_key() { sha256sum "${BASH_SOURCE[0]}" | cut -c1-16; }

bootstrap_base() {
  local archive=$1
  say "bootstrapping Debian bookworm (half a minute)"
  mkdir -p "${archive%/*}"
  if ! nice -n 10 mmdebstrap --variant=minbase "${SLIM[@]}" bookworm "$archive.partial.tar" \
    >"${archive%.tar}.log" 2>&1; then
    tail -n 15 "${archive%.tar}.log" >&2
    die "mmdebstrap failed; all of its output is in ${archive%.tar}.log"
  fi
  # Which packages the base holds decides which ones an image still needs.
  tar -xOf "$archive.partial.tar" ./var/lib/dpkg/status >"${archive%.tar}.status"
  mv "$archive.partial.tar" "$archive"
}

commit_base() {
  local container
  container=$(run_buildah from scratch)
  run_buildah add --quiet "$container" "$1" / >/dev/null
  run_buildah config --cmd bash "$container"
  run_buildah commit --quiet --rm "$container" "$BASE_IMAGE" >/dev/null
}

make_base() {
  local archive key
  archive=$(base_archive)
  key=$(base_key)
  if [[ $(cat "$archive.key" 2>/dev/null) == "$key" && -n $(image_id "$BASE_IMAGE") ]]; then
    return
  fi
  bootstrap_base "$archive"
  commit_base "$archive"
  printf '%s\n' "$key" >"$archive.key"
}

# shellcheck shell=bash
# Fetches wheels and Debian packages with the host's clients; the Dockerfiles
# then install them without a network. A download is repeated only when the
# list it came from has changed.

# download_once LIST FOLDER COMMAND...: the command fills the folder.
download_once() {
  local list=$1 folder=$2
  shift 2
  if [[ -e $folder/.list ]] && cmp --silent "$list" "$folder/.list"; then
    return
  fi
  say "downloading what ${list#"$IMAGES/"} names"
  rm -rf "$folder" "$folder.partial"
  mkdir -p "$folder.partial"
  "$@" "$list" "$folder.partial"
  cp "$list" "$folder.partial/.list"
  mv "$folder.partial" "$folder"
}

# The target is Debian 12's Python 3.11, whatever the host's is. Every file is
# pinned by version; nothing is resolved here.
fetch_wheels() {
  local platform platforms=()
  for platform in manylinux1_x86_64 manylinux2010_x86_64 manylinux2014_x86_64 \
    manylinux_2_{24,27,28,31,34,35}_x86_64; do
    platforms+=(--platform "$platform")
  done
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version 3.11 --implementation cp "${platforms[@]}" \
    --requirement "$1" --dest "$2" >&2
}

# What a package needs besides itself depends on the base image.
download_packages_once() {
  [[ $2 -nt $(base_archive) ]] || rm -rf "$2"
  download_once "$1" "$2" fetch_packages
}

# The packages and what they depend on, less what the base image has.
fetch_packages() {
  local packages
  mapfile -t packages < <(grep -v '^#' "$1")
  apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are there"
  mkdir -p "$2/partial"
  apt-get install --quiet=2 --yes --download-only --no-install-recommends \
    -o Dir::State::status="$IMAGE_CACHE/base/bookworm.status" -o Dir::Cache::archives="$2" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User=root "${packages[@]}" >&2
  rm -rf "$2/partial" "$2/lock"
}

#!/usr/bin/env bash
# Builds static Go binaries of one module into $SLIPWAY_CACHE/bin, unless they are there already.
#
#   go-binary.sh [--prepare SCRIPT] MODULE_DIR LDFLAGS PACKAGE=NAME...
#
# One call builds all of them, so that packages are loaded once and shared. A file is keyed by everything that decides
# its content (sources, module files, linker flags, toolchain, this script): a warm call costs some milliseconds, and a
# changed source always rebuilds. SCRIPT prints further arguments for `go build`, a line each; its folder belongs to
# the key. Prints the paths of the binaries.
set -euo pipefail
shopt -s inherit_errexit

PREPARE=
[[ $1 != --prepare ]] || { PREPARE=$(realpath "$2") && shift 2; }
readonly PREPARE module_dir=$1 ldflags=$2
shift 2
readonly wanted=("$@") bin=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/bin
# Stripped binaries need no DWARF, and writing none saves a tenth of the compile time.
readonly compiler_flags=-dwarf=false

say() { printf '%s\n' "$*" >&2; }

sources() { find "$1" \( -name '*.go' ! -name '*_test.go' -o -name go.mod -o -name go.sum \) -print0; }

content_key() {
  {
    go version
    printf '%s\n' "${wanted[@]}" "$ldflags"
    cat "${BASH_SOURCE[0]}"
    {
      sources "$module_dir"
      [[ -z $PREPARE ]] || { sources "${PREPARE%/*}" && printf '%s\0' "$PREPARE"; }
    } | LC_ALL=C sort -z | xargs -0 sha256sum | cut -c1-64
  } | sha256sum | cut -c1-16
}

# build KEY: all of them, for they share what takes the time.
build() {
  local key=$1 started=$SECONDS further=() pair folder
  say "building ${wanted[*]#*=}; a cold build takes minutes"
  folder=$(mktemp -d "$bin/.building-XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$folder'" EXIT
  [[ -z $PREPARE ]] || mapfile -t further < <("$PREPARE" "$module_dir")
  (
    cd "$module_dir"
    CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" nice -n 10 \
      go build -trimpath -gcflags="all=$compiler_flags" -ldflags "-s -w $ldflags" -o "$folder/" "${further[@]}" "${wanted[@]%=*}"
  )
  for pair in "${wanted[@]}"; do
    mv "$folder/$(basename "${pair%=*}")" "$bin/${pair#*=}-$key"
  done
  say "built ${wanted[*]#*=} in $((SECONDS - started)) s"
}

are_there() {
  local pair
  for pair in "${wanted[@]}"; do
    [[ -x $bin/${pair#*=}-$1 ]] || return 1
  done
}

main() {
  command -v go >/dev/null || { say "go-binary.sh: no go on PATH; install the version that ${module_dir}/go.mod names or later"; exit 1; }
  mkdir -p "$bin"
  local key pair name
  key=$(content_key)
  if ! are_there "$key"; then
    # Others may ask for the same binaries at the same time; the second one waits.
    exec 9>"$bin/.${wanted[0]#*=}.lock"
    flock 9
    are_there "$key" || build "$key"
  fi
  for pair in "${wanted[@]}"; do
    name=${pair#*=}
    [[ $(readlink "$bin/$name" 2>/dev/null) == "$name-$key" ]] || ln -sfn "$name-$key" "$bin/$name"
    find "$bin" -maxdepth 1 -name "$name-????????????????" ! -name "$name-$key" -delete
    printf '%s\n' "$bin/$name"
  done
}

main

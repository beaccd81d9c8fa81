#!/usr/bin/env bash
# Builds one static Go binary into $SLIPWAY_CACHE/bin, unless it is there already.
#
#   go-binary.sh MODULE_DIR PACKAGE NAME [LDFLAGS]
#
# The file is keyed by everything that decides its content (sources, module
# files, linker flags, toolchain, this script), so that a warm call costs some
# milliseconds and a changed source always rebuilds. Prints the binary's path.
set -euo pipefail

readonly module_dir=$1 package=$2 name=$3 ldflags=${4:-}
readonly bin=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/bin
readonly link=$bin/$name

say() { printf '%s\n' "$*" >&2; }

content_key() {
  {
    go version
    printf '%s\n' "$package" "$ldflags"
    cat "${BASH_SOURCE[0]}"
    cd "$module_dir"
    find . \( -name '*.go' ! -name '*_test.go' -o -name go.mod -o -name go.sum \) -print0 |
      LC_ALL=C sort -z | xargs -0 sha256sum
  } | sha256sum | cut -c1-16
}

build() {
  local target=$1 started=$SECONDS
  say "building $name ($target); a cold build takes minutes"
  (
    cd "$module_dir"
    CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" nice -n 10 \
      go build -trimpath -ldflags "-s -w $ldflags" -o "$target.partial" "$package"
  )
  mv "$target.partial" "$target"
  say "built $name in $((SECONDS - started)) s"
}

main() {
  command -v go >/dev/null || { say "go-binary.sh: no go on PATH; install the version that ${module_dir}/go.mod names or later"; exit 1; }
  mkdir -p "$bin"
  local target
  target=$bin/$name-$(content_key)
  if [[ ! -x $target ]]; then
    # Others may ask for the same binary at the same time; the second one waits.
    exec 9>"$bin/.$name.lock"
    flock 9
    [[ -x $target ]] || build "$target"
  fi
  [[ $(readlink "$link" 2>/dev/null) == "${target##*/}" ]] || ln -sfn "${target##*/}" "$link"
  find "$bin" -maxdepth 1 -name "$name-????????????????" ! -path "$target" -delete
  printf '%s\n' "$link"
}

main

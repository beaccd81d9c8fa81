#!/usr/bin/env bash
# Turns a machine with root and an NVIDIA driver into a node with Slipway, and shows an agent whose model is served on
# the GPU by vLLM or by Triton. Everything comes from the pieces of parts.sh; nothing is downloaded. A second call goes on
# where the first one stopped.
#
#   start.sh [FOLDER_WITH_PIECES] [probe|node|agent|rollout|loop|faults|adapter|features|tp2|triton|triton-rollout]...
#
# `faults` is for rehearsals. Without a word it does node and agent. Without a folder it takes its own, or $SLIPWAY_CACHE/gpu-pieces.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
[[ -e $here/SHA256SUMS ]] || here=$SLIPWAY_CACHE/gpu-pieces
[[ ! -d ${1:-} ]] || { here=$(realpath "$1") && shift; }
readonly here parts=$SLIPWAY_CACHE/gpu-parts

die() {
  printf 'start.sh: %s\n' "$*" >&2
  exit 1
}

# Every piece whole, or the names of those that are not.
check_pieces() {
  [[ -e $here/SHA256SUMS ]] || die "no SHA256SUMS in $here; make gpu-parts writes it with the pieces"
  (cd "$here" && sha256sum --check --quiet SHA256SUMS >&2) ||
    die "the pieces above are missing or damaged; copy them again"
}

# The sums of a part's pieces: what is unpacked is not unpacked again.
key_of() { grep " \*\?\./$1\.part-" "$here/SHA256SUMS" | sha256sum | cut -c1-16; }

# reader_of FILE: how it is compressed is told by its first bytes.
reader_of() {
  case $(head -c 2 "$1" | od -An -tx1 | tr -d ' ') in
    fd37) printf 'xz --decompress --threads=0\n' ;;
    1f8b) printf 'gzip --decompress\n' ;;
    *) printf 'cat\n' ;;
  esac
}

unpack() {
  local name=$1 reader
  [[ $(cat "$parts/$name.key" 2>/dev/null) != "$(key_of "$name")" ]] || return 0
  read -ra reader < <(reader_of "$here/$name.part-00")
  rm -rf "${parts:?}/$name" "$parts/$name.key"
  mkdir -p "$parts/$name"
  cat "$here/$name.part-"* | "${reader[@]}" | tar --extract --directory "$parts/$name"
  key_of "$name" >"$parts/$name.key"
}

unpack_all() {
  local name names pids=() pid
  mkdir -p "$parts"
  # A node goes by the parts that it has: those of other pieces go.
  for name in "$parts"/*.key; do
    name=$(basename "$name" .key)
    [[ -e $here/$name.part-00 ]] || rm -rf "${parts:?}/$name" "$parts/$name.key"
  done
  mapfile -t names < <(sed -n 's|^.* [*]\?\./\(.*\)\.part-00$|\1|p' "$here/SHA256SUMS")
  for name in "${names[@]}"; do
    unpack "$name" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || die "a part could not be unpacked in $parts; is there room?"
  done
}

[[ $EUID -eq 0 ]] || die "needs root: it makes namespaces, cgroups and a network interface"
check_pieces
unpack_all
for what in "${@:-node agent}"; do
  for script in $what; do
    "$parts/tree/e2e/gpu/$script.sh"
  done
done

#!/usr/bin/env bash
# Gathers what a machine without a network needs to run the suite `campaign`, as e2e/gpu/parts.sh does for a GPU node,
# and cuts it into pieces. start.sh, which is among them, makes the cluster there and runs the suite.
#
#   carry.sh        (Debian 12, root; needs the network once)
#
# The pieces lie in $SLIPWAY_CAMPAIGN_PIECES (default: $SLIPWAY_CACHE/campaign-pieces), none above 30 MiB, with
# SHA256SUMS.
#   SLIPWAY_RUST_BINARIES=FOLDER     Slipway's programs, instead of building them
#   SLIPWAY_GPU_COMPRESSOR=COMMAND   xz or gzip with its options (default: gzip -6, because a bare machine has no xz)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
# shellcheck source=../gpu/lib/common.sh
source "$here/../gpu/lib/common.sh"
export SLIPWAY_GPU_COMPRESSOR=${SLIPWAY_GPU_COMPRESSOR:-gzip -6}
PIECES=${SLIPWAY_CAMPAIGN_PIECES:-$SLIPWAY_CACHE/campaign-pieces}
GATHERED=$SLIPWAY_CACHE/campaign-gathered
ALL_PARTS=(tree kubernetes programs packages images)
# shellcheck disable=SC2034 # read by gather.sh
GPU_IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-triton slipway-model-builder)
for part in gather pack; do
  # shellcheck source=/dev/null
  source "$GPU_SCRIPTS/lib/$part.sh"
done

# What follows takes the place of functions of gather.sh: a GPU needs more, and the suite needs itself.

gather_tree() {
  rm -rf "$1" && mkdir -p "$1"
  git ls-files --cached --others --exclude-standard -z charts e2e/campaign e2e/cluster e2e/demo e2e/gpu e2e/manifests |
    xargs -0 cp --parents --target-directory "$1"
  {
    printf 'commit %s\n' "$(git rev-parse HEAD)"
    git status --short --untracked-files=no
  } >"$1/COMMIT"
}

# There are no rollouts here.
gather_gateway_api() { rm -rf "$1"; }

# As e2e/run.sh builds them, so that nothing is compiled for both.
rust_binaries() {
  [[ -z ${SLIPWAY_RUST_BINARIES:-} ]] || return 0
  export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}
  cargo build --workspace --all-targets --locked --quiet
  export SLIPWAY_RUST_BINARIES=$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/debug
}

# The suite as a program: cargo names it.
suite() {
  CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target} \
    cargo test --workspace --locked --no-run --test campaign 2>&1 | tee /dev/stderr |
    sed -n 's|.*Executable tests/campaign\.rs (\(.*\))$|\1|p'
}

gather_programs() {
  local executable
  gather_clients "$1"
  executable=$(suite)
  [[ -x $executable ]] || die "cargo names no executable of the suite campaign"
  strip --strip-all -o "$1/campaign" "$executable"
  # Where it looks for its files: the crate's folder at the time of compiling.
  for name in "$REPOSITORY/e2e" "/check$REPOSITORY/e2e"; do
    ! grep --quiet --text --fixed-strings "$name" "$executable" || printf '%s\n' "$name"
  done >"$1/campaign.paths"
}

gather_packages() {
  local lists=(e2e/gpu/packages.txt e2e/campaign/packages.txt) packages
  mapfile -t packages < <(grep --no-filename --invert-match '^#' "${lists[@]}")
  if cat "${lists[@]}" | cmp --silent - "$1/.list"; then
    return
  fi
  rm -rf "$1" && mkdir -p "$1"
  (cd "$1" && apt-get download --quiet=2 -o APT::Sandbox::User=root "${packages[@]}")
  cat "${lists[@]}" >"$1/.list"
}

# e2e/gpu/start.sh checks and unpacks the pieces; which script then runs is said to it.
pack_campaign() {
  local name
  mkdir -p "$PIECES"
  for name in "${ALL_PARTS[@]}"; do
    pack "$name"
  done
  cp "$GPU_SCRIPTS/start.sh" "$PIECES/unpack.sh"
  cp "$here/start.sh" "$PIECES/start.sh"
  (cd "$PIECES" && sha256sum ./*.part-* unpack.sh start.sh >SHA256SUMS)
}

cd "$REPOSITORY"
gather_all
pack_campaign
tell_pieces

# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# Paths, messages and the private buildah of the image scripts.

IMAGES=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPOSITORY=$(cd "$IMAGES/../.." && pwd)
SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
IMAGE_CACHE=$SLIPWAY_CACHE/images
BASE_IMAGE=docker.io/library/debian:bookworm-slim
# Cargo's profile of our own programs, and the folder where it leaves them.
PROFILE=${SLIPWAY_PROFILE:-dev}
PROFILE_FOLDER=x86_64-unknown-linux-gnu/${PROFILE/#dev/debug}
RUST_BINARIES=${SLIPWAY_RUST_BINARIES:-${CARGO_TARGET_DIR:-$REPOSITORY/target}/$PROFILE_FOLDER}

# In the order in which they build on each other.
ALL_IMAGES=(slipway-python slipway-triton slipway-model-builder slipway-lognormal-builder slipway-busybox slipway-traefik
  slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-tensorrt-llm-stand-in
  slipway-no-build-stand-in slipway-vllm slipway-triton-gpu slipway-torch-builder slipway-model-analyzer slipway-preflight)

say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

tag_of() { printf 'slipway.dev/%s:dev\n' "$1"; }

# buildah with a store of its own, so that nobody else's images are touched.
# What it notes about mounts is void after a reboot, hence the boot's id.
run_buildah() {
  local boot
  boot=$(cut -c1-8 /proc/sys/kernel/random/boot_id)
  nice -n 10 buildah --root "$SLIPWAY_CACHE/buildah/root" --runroot "$SLIPWAY_CACHE/buildah/run-$boot" \
    --storage-driver overlay "$@"
}

# The id (config digest) of a built image, or nothing.
image_id() { run_buildah images --quiet --no-trunc --filter "reference=$1" 2>/dev/null | head -n 1; }

hash_of_files() { LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -c1-16; }

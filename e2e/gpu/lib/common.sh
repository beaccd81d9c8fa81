# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# Names of the parts, and where things lie on the machine that gathers them and on the node.

GPU_SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPOSITORY=$(cd "$GPU_SCRIPTS/../.." && pwd)
export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
# Pieces and their checksums; what is carried.
PIECES=${SLIPWAY_GPU_PIECES:-$SLIPWAY_CACHE/gpu-pieces}
# The parts themselves: as gathered, and as joined and unpacked on the node.
GATHERED=$SLIPWAY_CACHE/gpu-gathered
PARTS=$SLIPWAY_CACHE/gpu-parts
# What the node makes for itself: runtime and specification.
NODE=$SLIPWAY_CACHE/gpu-node
# Its Python environment, under the path that pods see, for bytecode knows the paths of its sources.
ENVIRONMENT=/opt/slipway/environment
# The cluster's name.
export DEMO_CLUSTER=gpu

# In the order in which they are packed.
ALL_PARTS=(tree kubernetes programs packages images wheels)
GPU_IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-preflight slipway-e2e slipway-vllm slipway-traefik)

say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

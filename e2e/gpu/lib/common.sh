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

# What is carried beside Slipway to serve models: vllm, triton, or both. A node goes by the parts that it got. With
# stand-in the scripts are rehearsed on a machine without a GPU.
SERVERS=${SLIPWAY_GPU_SERVERS:-vllm}
# In the order in which they are packed.
ALL_PARTS=(tree kubernetes programs packages images)
GPU_IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-preflight slipway-e2e)
for server in $SERVERS; do
  case $server in
    vllm) ALL_PARTS+=(wheels) GPU_IMAGES+=(slipway-vllm slipway-traefik) ;;
    triton) ALL_PARTS+=(stub) GPU_IMAGES+=(slipway-triton-gpu slipway-torch-builder slipway-model-analyzer) ;;
    stand-in) ALL_PARTS+=(driver) GPU_IMAGES+=(slipway-no-build-stand-in slipway-traefik) ;;
    *) printf 'SLIPWAY_GPU_SERVERS: expected vllm, triton, both, or stand-in, got %s\n' "$server" >&2 && exit 2 ;;
  esac
done

say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

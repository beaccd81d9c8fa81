#!/usr/bin/env bash
# Gathers everything that a machine with an NVIDIA driver needs to become a node of a cluster with Slipway and a server
# of models, and cuts it into pieces for a way that takes little at a time. start.sh, which is among them, puts them
# together there.
#
#   parts.sh        (Debian 12 or 13, root; needs the network once)
#
# The pieces lie in $SLIPWAY_GPU_PIECES (default: $SLIPWAY_CACHE/gpu-pieces), none above 30 MiB, with SHA256SUMS.
#   SLIPWAY_GPU_SERVERS="vllm triton"  what is to serve there (default: vllm); triton alone leaves vLLM's wheels out
#   SLIPWAY_GPU_SERVERS=stand-in       for rehearsals without a GPU, with SLIPWAY_NVML_MOCK=FOLDER: a checkout of
#                                      NVIDIA/k8s-test-infra
#   SLIPWAY_RUST_BINARIES=FOLDER     Slipway's programs, instead of building them
#   SLIPWAY_GPU_COMPRESSOR=COMMAND   xz or gzip with its options (default: xz --threads=0 -2)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
for part in gather pack; do
  # shellcheck source=/dev/null
  source "$GPU_SCRIPTS/lib/$part.sh"
done

cd "$REPOSITORY"
gather_all
pack_all
tell_pieces

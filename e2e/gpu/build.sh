#!/usr/bin/env bash
# Builds NVIDIA's container toolkit and device plugin from their Go modules into a folder. NVML needs cgo, hence a C
# compiler.
#
#   build.sh FOLDER
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here target=${1:?usage: build.sh FOLDER}

# build MODULE PACKAGE...: the version is that of go.mod.
build() {
  local module=$1 upstream version
  shift
  upstream=${1%%/cmd/*}
  version=$(grep --only-matching "$upstream v[^ ]*" "$here/$module/go.mod" | head -n 1 | cut -d' ' -f2)
  # NVML's symbols are looked up when they are called: the library comes with the driver of the node.
  (
    cd "$here/$module"
    # Upstream keeps functions that NVIDIA deprecates.
    CGO_ENABLED=1 CGO_CFLAGS="-O2 -Wno-deprecated-declarations" GOFLAGS="-mod=readonly -buildvcs=false" \
      nice -n 10 go build -trimpath \
      -ldflags "-s -w -X $upstream/internal/info.version=$version '-extldflags=-Wl,-z,lazy'" -o "$target/" "$@"
  )
}

mkdir -p "$target"
build toolkit github.com/NVIDIA/nvidia-container-toolkit/cmd/{nvidia-ctk,nvidia-container-runtime}
build plugin github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin

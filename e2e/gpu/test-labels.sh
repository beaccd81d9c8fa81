#!/usr/bin/env bash
# Holds the labels of a GPU node to those of GPU feature discovery, with an nvidia-smi that only says what an H100's
# did. Needs no GPU.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/labels.sh
source "$here/lib/labels.sh"
system=$(mktemp -d)
trap 'rm -rf "$system"' EXIT

product='NVIDIA H100 80GB HBM3' mig_mode=Disabled
# shellcheck disable=SC2317 # called by gpu_labels
run_nvidia_smi() {
  case $* in
    *mig.mode.current*) printf '%s, 81559, 580.159.04, 9.0, %s\n' "$product" "$mig_mode" ;;
    *query-gpu=name*) printf '%s\n%s\n' "$product" "$product" ;;
    *pci.bus_id*) printf '00000000:19:00.0\n00000000:3B:00.0\n' ;;
    -q) printf '\nDriver Version                  : 580.159.04\nCUDA Version                    : 13.0\n' ;;
  esac
}

fails() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}
expect() {
  local label=$1 found
  found=$(grep "^${label%%=*}=" "$system/found") || fails "$label is missing"
  [[ $found == "$label" ]] || fails "expected $label, found $found"
}

mkdir -p "$system/class/dmi/id"
for bus in 19 3b; do
  mkdir -p "$system/bus/pci/devices/0000:$bus:00.0"
  printf '0x030200\n' >"$system/bus/pci/devices/0000:$bus:00.0/class"
done
printf 'ProLiant DL380a  (Gen11)\n' >"$system/class/dmi/id/product_name"

gpu_labels 1 "$system" >"$system/found"
diff - <(LC_ALL=C sort "$system/found") <<'LABELS' || fails "the labels differ"
nvidia.com/cuda.driver-version.full=580.159.04
nvidia.com/cuda.driver-version.major=580
nvidia.com/cuda.driver-version.minor=159
nvidia.com/cuda.driver-version.revision=04
nvidia.com/cuda.driver.major=580
nvidia.com/cuda.driver.minor=159
nvidia.com/cuda.driver.rev=04
nvidia.com/cuda.runtime-version.full=13.0
nvidia.com/cuda.runtime-version.major=13
nvidia.com/cuda.runtime-version.minor=0
nvidia.com/cuda.runtime.major=13
nvidia.com/cuda.runtime.minor=0
nvidia.com/gpu.compute.major=9
nvidia.com/gpu.compute.minor=0
nvidia.com/gpu.count=2
nvidia.com/gpu.family=hopper
nvidia.com/gpu.machine=ProLiant-DL380a-Gen11
nvidia.com/gpu.memory=81559
nvidia.com/gpu.mode=compute
nvidia.com/gpu.present=true
nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
nvidia.com/gpu.replicas=1
nvidia.com/gpu.sharing-strategy=none
nvidia.com/mig.capable=true
nvidia.com/mps.capable=false
LABELS

# A card for desktops in a machine that says nothing of itself, shared by four.
product='NVIDIA GeForce RTX 4090' mig_mode='[N/A]'
printf '0x030000\n' >"$system/bus/pci/devices/0000:19:00.0/class"
rm "$system/class/dmi/id/product_name"
gpu_labels 4 "$system" >"$system/found"
expect nvidia.com/gpu.product=NVIDIA-GeForce-RTX-4090-SHARED
expect nvidia.com/gpu.sharing-strategy=time-slicing
expect nvidia.com/gpu.replicas=4
expect nvidia.com/mig.capable=false
expect nvidia.com/gpu.machine=unknown
expect nvidia.com/gpu.mode=unknown
printf 'labels of a GPU node are those of GPU feature discovery\n'

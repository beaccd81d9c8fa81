# shellcheck shell=bash
# Labels of a node as GPU feature discovery writes them: NVIDIA/k8s-device-plugin v0.17.4, internal/lm/nvml.go,
# resource.go and machine-type.go, with MIG strategy none, as the device plugin here has it. It cannot be built from
# modules here. Left out is `nvidia.com/gfd.timestamp`. `nvidia.com/gpu.present` is node feature discovery's. Sourced by
# device.sh, which has run_nvidia_smi, and by ../test-labels.sh, which has another.

family_of() {
  case $1 in
    7.5) printf 'turing\n' ;;
    7.*) printf 'volta\n' ;;
    8.9) printf 'ada-lovelace\n' ;;
    8.*) printf 'ampere\n' ;;
    9.*) printf 'hopper\n' ;;
    10.* | 12.*) printf 'blackwell\n' ;;
    *) printf 'undefined\n' ;;
  esac
}

# A text as a label's value: only letters, digits, dashes, underscores and dots, and single dashes for blanks.
as_label() { tr -cd 'A-Za-z0-9_. -' <<<"$1" | xargs printf '%s\n' | paste -sd -; }

# The mode by the PCI classes of all GPUs: controllers of displays, or others.
mode_of() {
  local system=$1 classes
  classes=$(run_nvidia_smi --query-gpu=pci.bus_id --format=csv,noheader | tr '[:upper:]' '[:lower:]' |
    while read -r bus; do cat "$system/bus/pci/devices/${bus: -12}/class" 2>/dev/null || true; done | sort -u)
  case $classes in
    0x030000) printf 'graphics\n' ;;
    0x030200) printf 'compute\n' ;;
    *) printf 'unknown\n' ;;
  esac
}

# The labels, one a line: of the first GPU, each of which is offered so often.
gpu_labels() {
  local shares=$1 system=${2:-/sys} shared='' sharing=none capable=true
  local name memory driver compute mig cuda count machine major minor revision
  ((shares == 1)) || shared=-SHARED sharing=time-slicing
  IFS=, read -r name memory driver compute mig < <(
    run_nvidia_smi --query-gpu=name,memory.total,driver_version,compute_cap,mig.mode.current \
      --format=csv,noheader,nounits | sed 's/, /,/g'
  )
  count=$(run_nvidia_smi --query-gpu=name --format=csv,noheader | wc -l)
  cuda=$(run_nvidia_smi -q | sed -nE 's/^CUDA (UMD )?Version *: *//p' | head -n 1)
  machine=$(cat "$system/class/dmi/id/product_name" 2>/dev/null) || machine=unknown
  [[ $mig != *N/A* ]] || capable=false
  IFS=. read -r major minor revision <<<"$driver"
  printf 'nvidia.com/%s\n' \
    gpu.present=true "gpu.product=$(as_label "$name")$shared" "gpu.memory=$memory" "gpu.count=$count" \
    "gpu.family=$(family_of "$compute")" "gpu.replicas=$shares" "gpu.sharing-strategy=$sharing" \
    "gpu.compute.major=${compute%.*}" "gpu.compute.minor=${compute#*.}" \
    "gpu.machine=$(as_label "$machine")" "gpu.mode=$(mode_of "$system")" "mig.capable=$capable" mps.capable=false \
    "cuda.driver.major=$major" "cuda.driver.minor=$minor" "cuda.driver.rev=$revision" \
    "cuda.driver-version.major=$major" "cuda.driver-version.minor=$minor" \
    "cuda.driver-version.revision=$revision" "cuda.driver-version.full=$driver" \
    "cuda.runtime.major=${cuda%.*}" "cuda.runtime.minor=${cuda#*.}" \
    "cuda.runtime-version.major=${cuda%.*}" "cuda.runtime-version.minor=${cuda#*.}" "cuda.runtime-version.full=$cuda"
}

# shellcheck shell=bash
# NVIDIA's parts: the CDI specification, the runtime that reads it, the device plugin; and labels as GPU feature
# discovery writes them. Sourced by node.sh.

# shellcheck source=labels.sh
source "$(dirname "${BASH_SOURCE[0]}")/labels.sh"

find_driver() {
  local folder
  for folder in ${SLIPWAY_GPU_DRIVER:-} /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu /usr/lib64; do
    [[ -e $folder/libnvidia-ml.so.1 && -e $folder/libcuda.so.1 ]] || continue
    printf '%s\n' "$folder"
    return
  done
  die "no libcuda.so.1 with libnvidia-ml.so.1; name their folder with SLIPWAY_GPU_DRIVER"
}

run_nvidia_smi() {
  local program
  program=$(command -v nvidia-smi || printf '%s/../bin/nvidia-smi' "$(find_driver)")
  LD_LIBRARY_PATH=$(find_driver) "$program" "$@"
}

# Lists devices and the driver's files.
generate_specification() {
  local driver
  driver=$(find_driver)
  mkdir -p "$NODE/cdi"
  LD_LIBRARY_PATH=$driver "$PARTS/programs/nvidia-ctk" cdi generate --mode nvml --format json \
    --library-search-path "$driver" --output "$NODE/generated.json"
}

# cdi.py adds the Python environment to the specification.
describe_gpu() {
  local python
  python=$(find_python)
  run_nvidia_smi
  generate_specification
  "$python" "$GPU_SCRIPTS/cdi.py" --environment "$ENVIRONMENT" "$NODE/generated.json" >"$NODE/cdi/nvidia.json"
  write_runtime
}

# Without the wrapper its configuration would have to lie below /etc.
write_runtime() {
  cat >"$NODE/runtime.toml" <<TOML
[nvidia-container-runtime]
mode = "cdi"
runtimes = ["runc"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = ["$NODE/cdi"]
TOML
  printf '#!/bin/sh\nNVIDIA_CTK_CONFIG_FILE_PATH=%q exec %q "$@"\n' \
    "$NODE/runtime.toml" "$PARTS/programs/nvidia-container-runtime" >"$NODE/runtime"
  chmod +x "$NODE/runtime"
}

plugin_log() { printf '%s/log/device-plugin.log\n' "$(cluster_folder)"; }

allocatable_gpus() {
  run_kubectl get node "$NODE_NAME" --output 'jsonpath={.status.allocatable.nvidia\.com/gpu}'
}

in_cluster() { "$REPOSITORY/e2e/cluster/enter.sh" --name "$CLUSTER" "$@"; }

# The plugin offers each GPU so often. Pods that share one take turns on it, and nothing keeps their memory apart.
readonly SHARES=${SLIPWAY_GPU_SHARES:-1}

write_plugin_config() {
  printf 'version: v1\n'
  ((SHARES == 1)) || printf 'sharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: %d}\n' "$SHARES"
}

# A process of the node, as CoreDNS is one; it ends with the cluster. It looks for the kubelet where that usually is.
start_device_plugin() {
  local attempt
  [[ $(allocatable_gpus) != [1-9]* ]] || return 0
  write_plugin_config >"$NODE/device-plugin.yaml"
  in_cluster mkdir -p /var/lib/kubelet
  in_cluster ln -sfn "$(cluster_folder)/kubelet/device-plugins" /var/lib/kubelet/device-plugins
  setsid "$REPOSITORY/e2e/cluster/enter.sh" --name "$CLUSTER" \
    env LD_LIBRARY_PATH="$(find_driver)" NODE_NAME="$NODE_NAME" \
    "$PARTS/programs/nvidia-device-plugin" --config-file "$NODE/device-plugin.yaml" \
    --device-discovery-strategy=nvml --device-list-strategy=envvar \
    >"$(plugin_log)" 2>&1 </dev/null &
  disown
  for attempt in {1..60}; do
    [[ $(allocatable_gpus) != [1-9]* ]] || return 0
    sleep 0.5
  done
  printf 'the kubelet knows no nvidia.com/gpu after %d s\n' "$((attempt / 2))"
  tail -n 20 "$(plugin_log)"
  return 1
}

label_node() {
  local labels
  mapfile -t labels < <(gpu_labels "$SHARES")
  ((${#labels[@]} > 0)) || return 1
  run_kubectl label --overwrite node "$NODE_NAME" "${labels[@]}"
}

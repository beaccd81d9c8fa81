#!/usr/bin/env bash
# Makes this machine a node with a GPU, and installs Slipway on it, from the parts that start.sh unpacked.
# A second call goes on where the first one stopped. The machine keeps what it has: nothing below /etc is written.
#
#   SLIPWAY_GPU_PYTHON=FILE      a Python that has torch (default: that of python.sh, or python3)
#   SLIPWAY_GPU_DRIVER=FOLDER    the driver's libraries (default: where the linker or NVIDIA's containers have them)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
for part in machine environment device slipway; do
  # shellcheck source=/dev/null
  source "$GPU_SCRIPTS/lib/$part.sh"
done

main() {
  local started=$SECONDS
  name_tools
  step "machine" "install by hand what the log names" prepare_machine
  ! is_rehearsal || stand_in_for_gpu
  begin "Python" "name a Python that has torch with SLIPWAY_GPU_PYTHON" install_environment
  begin "GPU" "nvidia-smi must work; name the driver's libraries with SLIPWAY_GPU_DRIVER" describe_gpu
  begin "cluster" "the log names the component" start_cluster
  finish_begun
  begin "images" "$REPOSITORY/e2e/cluster/enter.sh --name $CLUSTER ctr -n k8s.io images list" import_images
  begin "device plugin" "the log of the plugin: $(plugin_log)" start_device_plugin
  begin "labels" "$(kubectl_line) describe node" label_node
  finish_begun
  step "Slipway" "$(kubectl_line) -n $SYSTEM_NAMESPACE describe pods" install_slipway
  tell_durations "$started"
}

main

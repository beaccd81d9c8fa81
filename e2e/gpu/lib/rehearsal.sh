# shellcheck shell=bash
# A rehearsal: the scripts on a machine without a GPU, with NVIDIA's toolkit, runtime and device plugin, and NVIDIA's
# stand-in for NVML. A STAND-IN serves in vLLM's place. Sourced by lib/node.sh.
#
#   SLIPWAY_REHEARSED_GPUS=N     GPUs that the node has (default: 4, at most 8)

is_rehearsal() { [[ -e $PARTS/driver.key ]]; }

readonly REHEARSED_GPUS=$NODE/gpus
! is_rehearsal ||
  export SLIPWAY_GPU_DRIVER=$PARTS/driver/lib64 MOCK_NVML_CONFIG=$REHEARSED_GPUS/all/config.yaml

# Changes to manifests, as an expression of sed: the stand-in answers every question alike, and two cores answer no 64
# runs at once.
rehearsal_changes() {
  ! is_rehearsal || printf '%s;' 's|slipway-vllm:dev|slipway-no-build-stand-in:dev|' '/^    quality:/d' \
    's|concurrency: .*|concurrency: [4, 32]|' '/requests:/s|memory: .*Gi|memory: 1Gi|' 's|cpu: "[0-9]*"|cpu: 50m|'
}

# ask_unseen [AGENT]: what ask_held_out does. The stand-in answers every question alike, and would answer none exactly.
ask_unseen() { is_rehearsal || ask_held_out "$@"; }

# Takes the place of what node.sh does with Python and the driver.
stand_in_for_gpu() {
  install_environment() { printf 'not needed\n'; }

  describe_gpu() {
    python3 "$GPU_SCRIPTS/stand_in/gpus.py" configure "$PARTS/driver/h100.yaml" "$REHEARSED_GPUS" \
      "${SLIPWAY_REHEARSED_GPUS:-4}"
    run_nvidia_smi
    generate_specification
    python3 "$GPU_SCRIPTS/stand_in/gpus.py" describe "$REHEARSED_GPUS" "$SLIPWAY_GPU_DRIVER" "$NODE/generated.json" \
      >"$NODE/cdi/nvidia.json"
    write_runtime
  }
}

# Every GPU is well, and as fast as the stand-in has it.
reset_gpus() { rm -f "$REHEARSED_GPUS"/GPU-*/{overrides.yaml,token_seconds}; }

# gpu_of POD: the folder of the GPU that its server has.
gpu_of() {
  local uuid
  uuid=$(in_namespace exec "$1" --container triton -- printenv NVIDIA_VISIBLE_DEVICES)
  printf '%s/%s\n' "$REHEARSED_GPUS" "$uuid"
}

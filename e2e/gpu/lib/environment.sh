# shellcheck shell=bash
# The Python environment, with vLLM where the parts have it, which the CDI specification mounts into pods. Sourced by
# node.sh.

has_vllm() { [[ -e $PARTS/wheels.key ]]; }
has_triton() { [[ -e $PARTS/stub.key ]]; }

# A Python of the node that has torch brings CUDA's libraries along; the wheels add vLLM, in a folder of their own.
install_environment() {
  local python key
  python=$(find_python)
  key=$("$python" -c 'import sys, torch; print(sys.executable, sys.version.split()[0], torch.__version__)')
  printf '%s\n' "$key"
  ! has_vllm || key+=" $(cat "$PARTS/wheels.key")"
  ! has_triton || key+=" $(cat "$PARTS/stub.key")"
  [[ $(cat "$ENVIRONMENT/.key" 2>/dev/null) != "$key" ]] || return 0
  rm -rf "$ENVIRONMENT"/{vllm,variables,.key} && mkdir -p "$ENVIRONMENT/vllm"
  ! has_vllm || "$python" -c 'import vllm' 2>/dev/null || install_wheels "$python"
  ! has_triton || install_stub_python "$python"
  compile_bytecode "$python"
  write_variables "$python" >"$ENVIRONMENT/variables"
  chmod -R a+rX "$ENVIRONMENT"
  check_environment
  printf '%s\n' "$key" >"$ENVIRONMENT/.key"
}

# Whether a Python with torch has vLLM, or all that the wheels of wheels.txt need beside them. vLLM 0.25 is compiled
# against torch 2.11.
takes_vllm() {
  "$1" -c 'import vllm' 2>/dev/null || "$1" -c 'import sys, torch, transformers
assert sys.version_info[:2] == (3, 12)
assert torch.__version__.startswith("2.11.") and torch.version.cuda >= "13"' 2>/dev/null
}

install_wheels() {
  local python=$1
  takes_vllm "$python" ||
    die "$python has no vLLM, and the wheels are for Python 3.12 with torch 2.11 for CUDA 13 and transformers:" \
      "name another with SLIPWAY_GPU_PYTHON"
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
    --root-user-action ignore --target "$ENVIRONMENT/vllm" "$PARTS"/wheels/*.whl
}

# Pods can write bytecode nowhere. Without it vLLM's three processes compile some thousand modules at each start.
compile_bytecode() {
  local folders
  mapfile -t folders < <("$1" -c 'import sysconfig
print(*dict.fromkeys(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), sep="\n")')
  # Some files of the packages are for other versions of Python.
  PYTHONPYCACHEPREFIX=$ENVIRONMENT/bytecode "$1" -W ignore -m compileall -qq -j 0 "${folders[@]}" "$ENVIRONMENT/vllm" ||
    true
}

# The stub of Triton's Python backend reads arrays as NumPy 1 lays them out: with NumPy 2 every byte of an input is its
# first one. So the stub gets a Python of its own, which has the node's packages after an older NumPy.
install_stub_python() {
  local python=$1 packages
  "$python" -c 'import sys; assert sys.version_info[:2] == (3, 12)' ||
    die "$python cannot serve models of Triton's Python backend, whose stub is for Python 3.12:" \
      "leave \"triton\" out of SLIPWAY_GPU_SERVERS"
  rm -rf "$ENVIRONMENT/stub"
  "$python" -m venv --without-pip "$ENVIRONMENT/stub"
  packages=$("$ENVIRONMENT/stub/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$python" -m zipfile -e "$PARTS"/stub/numpy-*.whl "$packages"
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$packages/node.pth"
  "$ENVIRONMENT/stub/bin/python3" -c 'import numpy, torch; print("NumPy", numpy.__version__, "in the stub"); assert numpy.__version__ < "2"'
}

# The modules that servers begin with: what is missing is named here, before a pod starts.
check_environment() (
  # shellcheck disable=SC1091 # written before
  source "$ENVIRONMENT/variables"
  # shellcheck disable=SC2153 # set there
  "$PYTHON" -c 'import numpy, safetensors, tokenizers, torch; print("torch", torch.__version__)'
  ! has_vllm ||
    "$PYTHON" -c 'import vllm.entrypoints.openai.api_server, vllm; print("vLLM", vllm.__version__)'
)

find_python() {
  local python
  for python in ${SLIPWAY_GPU_PYTHON:-} "$NODE/python/bin/python3" python3; do
    python=$(command -v "$python") || continue
    "$python" -c 'import torch; assert torch.version.cuda' 2>/dev/null || continue
    printf '%s\n' "$python"
    return
  done
  die "no Python with torch for CUDA; name one with SLIPWAY_GPU_PYTHON, or let e2e/gpu/python.sh install one"
}

# What the image's programs source. A file, because a specification's variables do not reach processes that are run in
# a container later, such as probes.
write_variables() {
  printf 'PYTHON=%q\n' "$1"
  # shellcheck disable=SC2016 # the image's program expands it
  ! has_triton || printf 'case $0 in */tritonserver) PYTHON=%q ;; esac\n' "$ENVIRONMENT/stub/bin/python3"
  printf 'export PYTHONPATH=%q\n' "$ENVIRONMENT/vllm"
  printf 'export PYTHONPYCACHEPREFIX=%q PYTHONDONTWRITEBYTECODE=1\n' "$ENVIRONMENT/bytecode"
  # It would be compiled with nvcc at each start; the likeliest token needs none.
  printf 'export VLLM_USE_FLASHINFER_SAMPLER=0\n'
  # GPUs of a virtual machine may share NVLink's switches with those of others, which multicast could disturb.
  printf 'export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1\n'
  printf 'export VLLM_ALLREDUCE_USE_SYMM_MEM=0 VLLM_ALLREDUCE_USE_FLASHINFER=0\n'
  # Triton asks the linker's cache first, which may know no driver.
  printf 'export TRITON_LIBCUDA_PATH=%q\n' "$(find_driver)"
  [[ $(find_driver) == /usr/lib* ]] || printf 'export LD_LIBRARY_PATH=%q\n' "$(find_driver)"
}

#!/usr/bin/env bash
# For a machine with a network whose Python has no torch: an environment of its own with vLLM and all that it needs,
# from the package index. A machine that has a Python with torch for CUDA, which takes vLLM where vLLM is to serve,
# keeps to that one. A rehearsal needs none.
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/environment.sh
source "$GPU_SCRIPTS/lib/environment.sh"

if [[ $SERVERS == stand-in ]]; then
  say "a stand-in serves, which needs no Python of the node"
  exit
fi
version=$(sed -n 's/^vllm==//p' "$GPU_SCRIPTS/wheels.txt")
if python=$(find_python 2>/dev/null) && { [[ $SERVERS != *vllm* ]] || takes_vllm "$python"; }; then
  say "$python has torch"
  exit
fi
# The one that is named comes first wherever a Python is looked for.
[[ -z ${SLIPWAY_GPU_PYTHON:-} ]] ||
  die "$SLIPWAY_GPU_PYTHON has no torch for CUDA that takes vLLM $version:" \
    "name another with SLIPWAY_GPU_PYTHON, or none"
"$GPU_SCRIPTS/../cluster/prerequisites.sh" ensurepip
rm -rf "$NODE/python"
python3 -m venv "$NODE/python"
"$NODE/python/bin/python3" -m pip install --quiet --disable-pip-version-check "vllm==$version"
find_python

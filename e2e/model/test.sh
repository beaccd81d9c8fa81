#!/usr/bin/env bash
# Runs the model's tests in a virtual environment below SLIPWAY_CACHE. With --triton, also those that start a real
# Triton server from its PyPI wheel (55 MB more to download); arguments behind it go to pytest. With --torch PYTHON, only
# those of the torch runtime, by a Python that has torch, safetensors, tokenizers and pytest: none is downloaded.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/model
tests=("$here/tests" --ignore "$here/tests/triton" --ignore "$here/tests/torch")

# make_environment NAME REQUIREMENTS - prints the folder; made anew when the requirements change.
make_environment() {
  local folder digest
  digest=$(python3 -c 'import sys; print(sys.version)' | cat - "$here/requirements.txt" "$2" | sha256sum | cut -c1-16)
  folder=$cache/$1-$digest
  if [[ ! -e $folder/complete ]]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$2"
    touch "$folder/complete"
  fi
  echo "$folder"
}

if [[ ${1:-} == --triton ]]; then
  shift
  environment=$(make_environment triton "$here/tests/triton/requirements.txt")
  tests=("$here/tests")
  export SLIPWAY_TEST_TRITON=1
elif [[ ${1:-} == --torch ]]; then
  python=${2:?--torch needs a Python that has torch}
  shift 2
  export SLIPWAY_TEST_TORCH=1 OMP_NUM_THREADS=1
  exec "$python" -m pytest --quiet -p no:cacheprovider "$here/tests/torch" "$@"
else
  environment=$(make_environment venv "$here/requirements.txt")
fi
export OMP_NUM_THREADS=1
exec "$environment/bin/python" -m pytest --quiet -p no:cacheprovider "${tests[@]}" "$@"
